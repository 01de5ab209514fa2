"""The kernels in plain torch: the reference for the Triton kernels, and the form that runs on a CPU."""

from spectrie_kernels.reference.linear import add_rank_sums, linear
from spectrie_kernels.reference.row_argmax import row_argmax
from spectrie_kernels.reference.tree_attention import tree_attention
from spectrie_kernels.reference.verify_greedy import verify_greedy

__all__ = ["add_rank_sums", "linear", "row_argmax", "tree_attention", "verify_greedy"]
