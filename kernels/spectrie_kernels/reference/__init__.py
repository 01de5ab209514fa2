"""The kernels in plain torch: the reference for the Triton kernels, and the form that runs on a CPU."""

from spectrie_kernels.reference.add_norm import add_norm
from spectrie_kernels.reference.draw import draw
from spectrie_kernels.reference.linear import add_rank_sums, linear, linear_sums
from spectrie_kernels.reference.row_argmax import row_argmax
from spectrie_kernels.reference.tree_attention import tree_attention
from spectrie_kernels.reference.verify_greedy import verify_greedy

__all__ = [
    "add_norm",
    "add_rank_sums",
    "draw",
    "linear",
    "linear_sums",
    "row_argmax",
    "tree_attention",
    "verify_greedy",
]
