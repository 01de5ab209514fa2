"""Drafters: networks that guess the tokens behind, most of them from what layers of the model give."""

from spectrie.model.drafters.beside import CpuDrafts, Drafts
from spectrie.model.drafters.description import AttentionLayer, Drafter, Target
from spectrie.model.drafters.load import read_drafter
from spectrie.model.drafters.mtp import layer_tensors
from spectrie.model.drafters.origin import Origin
from spectrie.model.drafters.plan import Answers, DraftPlan, LevelPlan
from spectrie.model.drafters.shipped import ShippedHead, head_for, shipped_heads

__all__ = [
    "Answers",
    "AttentionLayer",
    "CpuDrafts",
    "DraftPlan",
    "Drafter",
    "Drafts",
    "LevelPlan",
    "Origin",
    "ShippedHead",
    "Target",
    "head_for",
    "layer_tensors",
    "read_drafter",
    "shipped_heads",
]
