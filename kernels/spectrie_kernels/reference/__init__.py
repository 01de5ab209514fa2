"""The kernels in plain torch: the reference for the Triton kernels, and the form that runs on a CPU."""

from spectrie_kernels.reference.add_norm import add_norm
from spectrie_kernels.reference.attention_of_items import attention_of_items, root_work
from spectrie_kernels.reference.draw import draw
from spectrie_kernels.reference.experts import (
    add_experts,
    choose_experts,
    expert_linear,
    group_choices,
)
from spectrie_kernels.reference.gate import gate
from spectrie_kernels.reference.gather_rows import gather_rows, lift_rows, token_logits
from spectrie_kernels.reference.linear import add_rank_sums, finished, linear, linear_sums
from spectrie_kernels.reference.move_slots import compact_slots, move_rows, move_slots
from spectrie_kernels.reference.rotate_write import rotate_write
from spectrie_kernels.reference.row_argmax import row_argmax
from spectrie_kernels.reference.top_k import top_k
from spectrie_kernels.reference.tree_attention import tree_attention
from spectrie_kernels.reference.unpack import take_drawn, unpack
from spectrie_kernels.reference.verify_greedy import draft_beams, draft_roots, verify_greedy

__all__ = [
    "add_experts",
    "add_norm",
    "add_rank_sums",
    "attention_of_items",
    "choose_experts",
    "compact_slots",
    "draft_beams",
    "draft_roots",
    "draw",
    "expert_linear",
    "finished",
    "gate",
    "gather_rows",
    "group_choices",
    "lift_rows",
    "linear",
    "linear_sums",
    "move_rows",
    "move_slots",
    "root_work",
    "rotate_write",
    "row_argmax",
    "take_drawn",
    "token_logits",
    "top_k",
    "tree_attention",
    "unpack",
    "verify_greedy",
]
