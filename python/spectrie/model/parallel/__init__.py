"""One model on several ranks, each with a slice of every product, with the bits of a single one.

Products are split by output features, and what goes into the next one is gathered whole: queries, keys
and values by heads; the output projection by columns, once the attended heads are gathered; gate and up
by columns; the down projection by columns, once the gated activations are gathered; the head by tokens.
So every sum is computed whole, on one rank, in the order of a single rank, and tokens are the same for
any number of ranks. The usual split of the second product of each half by input features adds up the
ranks' partial sums instead: half as many exchanges, but another order of addition, and other bits.

Rank 0 has the engine and the step loop. It sends every plan to the others as two flat tensors of
integers, and all run the same forward.
"""

from __future__ import annotations

from spectrie.model.parallel.group import Group, Seat
from spectrie.model.parallel.lead import LeadDecoder
from spectrie.model.parallel.partition import Partition
from spectrie.model.parallel.ranks import Ranks
from spectrie.model.parallel.split import Share, Split

__all__ = ["Group", "LeadDecoder", "Partition", "Ranks", "Seat", "Share", "Split"]
