"""Drafters: small networks that read what layers of the model give, and guess the tokens behind."""

from spectrie.model.drafters.description import Drafter, Target
from spectrie.model.drafters.load import read_drafter
from spectrie.model.drafters.mtp import layer_tensors
from spectrie.model.drafters.origin import Origin
from spectrie.model.drafters.plan import Answers, DraftPlan, LevelPlan

__all__ = [
    "Answers",
    "DraftPlan",
    "Drafter",
    "LevelPlan",
    "Origin",
    "Target",
    "layer_tensors",
    "read_drafter",
]
