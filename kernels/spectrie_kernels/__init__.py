"""Kernels for tree verification, each beside its plain-torch reference.

Each function runs the plain-torch form on CPU tensors and the Triton kernel on GPU tensors (on all
tensors under Triton's interpreter, `TRITON_INTERPRET=1`); `backend.py` tells which. Importing this
does not need Triton.
"""

from __future__ import annotations

from spectrie_kernels.attention.arrays import AttentionArrays, WorkArrays
from spectrie_kernels.attention.key_order import KeyOrder
from spectrie_kernels.attention.layout import AttentionLayout
from spectrie_kernels.attention.roots import (
    ROOT_WORDS,
    RootAnswers,
    RootPlaces,
    RootRows,
    RootSections,
)
from spectrie_kernels.attention.rows import MAX_TREE_ROWS, AttentionRows, DraftRows
from spectrie_kernels.attention.tiles import AttentionTiles
from spectrie_kernels.backend import has_triton
from spectrie_kernels.calls.attention import tree_attention
from spectrie_kernels.calls.draw import BANNED, NO_LOGIT, draw, draw_workspace
from spectrie_kernels.calls.experts import (
    add_experts,
    choose_experts,
    expert_linear,
    group_choices,
)
from spectrie_kernels.calls.greedy import (
    TOP_K,
    row_argmax,
    row_argmax_workspace,
    token_logits,
    top_k,
    top_k_workspace,
    verify_greedy,
)
from spectrie_kernels.calls.layer import (
    add_norm,
    compact_slots,
    embed,
    gate,
    gather_rows,
    lift_rows,
    move_rows,
    move_slots,
    rotate_write,
)
from spectrie_kernels.calls.products import (
    add_rank_sums,
    finish_sums,
    linear,
    linear_sums,
    linear_sums_shape,
    linear_workspace,
)
from spectrie_kernels.calls.roots import draft_beams, draft_roots, root_work
from spectrie_kernels.calls.unpack import take_drawn, unpack
from spectrie_kernels.draw_rows import DrawRows, has_device_form
from spectrie_kernels.experts.weight import ExpertWeight
from spectrie_kernels.experts.work import ExpertWork
from spectrie_kernels.linear_tiles import LinearTiles
from spectrie_kernels.linear_weight import LinearWeight
from spectrie_kernels.partial_sums import PartialSums
from spectrie_kernels.step_arrays import StepArray, StepArrays
from spectrie_kernels.sum_order import SumOrder

__all__ = [
    "BANNED",
    "MAX_TREE_ROWS",
    "NO_LOGIT",
    "ROOT_WORDS",
    "TOP_K",
    "AttentionArrays",
    "AttentionLayout",
    "AttentionRows",
    "AttentionTiles",
    "DraftRows",
    "DrawRows",
    "ExpertWeight",
    "ExpertWork",
    "KeyOrder",
    "LinearTiles",
    "LinearWeight",
    "PartialSums",
    "RootAnswers",
    "RootPlaces",
    "RootRows",
    "RootSections",
    "StepArray",
    "StepArrays",
    "SumOrder",
    "WorkArrays",
    "add_experts",
    "add_norm",
    "add_rank_sums",
    "choose_experts",
    "compact_slots",
    "draft_beams",
    "draft_roots",
    "draw",
    "draw_workspace",
    "embed",
    "expert_linear",
    "finish_sums",
    "gate",
    "gather_rows",
    "group_choices",
    "has_device_form",
    "has_triton",
    "lift_rows",
    "linear",
    "linear_sums",
    "linear_sums_shape",
    "linear_workspace",
    "move_rows",
    "move_slots",
    "root_work",
    "rotate_write",
    "row_argmax",
    "row_argmax_workspace",
    "take_drawn",
    "token_logits",
    "top_k",
    "top_k_workspace",
    "tree_attention",
    "unpack",
    "verify_greedy",
]
