"""One model on several ranks, each with a slice of every product, and the same bits as on one rank.

Products are split by output features, and the input of the next product is gathered whole: queries, keys
and values by heads; the output projection by columns, after gathering the attended heads; gate and up by
columns; the down projection by columns, after gathering the gated activations; the head by tokens. So one
rank computes every sum whole, in the order of a single rank, and tokens do not depend on their number.
The usual split of the second product of each half by input features adds the ranks' partial sums instead:
half as many exchanges, but another order of addition, hence other bits.

Exact products on GPUs have that split all the same: their output and down projections are added in eight
segments as a fixed tree on one rank too, so that ranks which hold neighbouring segments and send their sums
give the same bits. Where segments cannot be divided among the ranks, columns are gathered as above.

Rank 0 runs the engine and the step loop. It sends every plan to the others as two flat tensors of
integers, and all run the same forward.
"""

from __future__ import annotations

from spectrie.model.parallel.split import Share, Split

__all__ = ["Share", "Split"]
