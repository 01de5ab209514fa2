"""The order in which a product adds its terms: a constant of the weight, whatever the rows."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["MAX_SEGMENTS", "SEGMENT_UNIT", "SumOrder", "sum_nest"]

SEGMENT_UNIT = 64
"""Segments are padded with zeros to a multiple of this many terms, so that every form takes equally
many steps of the matrix instruction."""

_SHARED_SEGMENTS = 8
_MIN_SEGMENT = 256
MAX_SEGMENTS = 16
"""Segments of a weight whose sums are added ascending."""
# One segment of 64 features is one program of a step with few rows: this many fill the largest
# devices twice. It is a constant, not the device's size, so that a weight has one order everywhere.
_PROGRAMS = 256
_PROGRAM_FEATURES = 64


@dataclass(frozen=True, slots=True)
class SumOrder:
    """How the terms of one output of a product are added.

    The terms are cut into segments of `segment` neighbours (the last may be shorter). Inside a segment
    one float32 accumulator takes them in ascending order. Segment sums are added in float32:
    ascending, or pairwise as ((0+1)+(2+3))+((4+5)+(6+7)).

    Attributes:
        in_features: Number of terms, the length of a weight row.
        segment: Terms in a segment.
        pairwise: Whether segment sums are added pairwise; then there are 1, 2, 4 or 8 equal segments.
    """

    in_features: int
    segment: int
    pairwise: bool = False

    def __post_init__(self) -> None:
        if self.in_features < 1 or self.segment < 1:
            raise ValueError(
                f"in_features is {self.in_features} and segment {self.segment}, both must be positive"
            )
        if self.pairwise and self.segment * self.segments != self.in_features:
            raise ValueError(
                f"{self.in_features} terms are no multiple of a segment of {self.segment}"
            )
        if self.pairwise and self.segments not in (1, 2, 4, 8):
            raise ValueError(f"pairwise sums have 1, 2, 4 or 8 segments, not {self.segments}")

    @classmethod
    def of(cls, out_features: int, in_features: int, *, row_parallel: bool = False) -> SumOrder:
        """Returns the order for a weight of [out_features, in_features].

        Args:
            out_features: Features of the whole weight, before ranks share it.
            in_features: Terms of the whole weight, before ranks share it.
            row_parallel: Whether ranks may share the terms (output and down projections): 8 segments
                added pairwise, so that 1, 2, 4 or 8 ranks give the same bits. A weight whose terms are no
                multiple of 8 cannot be shared and takes the ascending order.
        """
        if row_parallel and in_features % _SHARED_SEGMENTS == 0:
            return cls(in_features, in_features // _SHARED_SEGMENTS, pairwise=True)
        tiles = -(-out_features // _PROGRAM_FEATURES)
        wanted = 1
        while wanted < MAX_SEGMENTS and wanted * tiles < _PROGRAMS:
            wanted *= 2
        even = -(-in_features // wanted)
        segment = max(_MIN_SEGMENT, -(-even // SEGMENT_UNIT) * SEGMENT_UNIT)
        return cls(in_features, min(segment, in_features))

    def is_shared_by(self, ranks: int) -> bool:
        """Whether so many ranks can share the terms."""
        return ranks == 1 or (self.pairwise and ranks >= 1 and self.segments % ranks == 0)

    def shard(self, ranks: int) -> SumOrder:
        """Returns the order of one of `ranks` ranks, each with 8 / ranks neighbouring segments.

        Raises:
            ValueError: The weight's terms cannot be shared by that number of ranks.
        """
        if ranks == 1:
            return self
        if not self.is_shared_by(ranks):
            kind = "pairwise" if self.pairwise else "in ascending order"
            raise ValueError(f"{ranks} ranks cannot share {self.segments} segments added {kind}")
        return SumOrder(self.in_features // ranks, self.segment, pairwise=True)

    @property
    def segments(self) -> int:
        """Number of segments."""
        return -(-self.in_features // self.segment)

    @property
    def padded_segment(self) -> int:
        """Terms in a segment with its zeros: a multiple of `SEGMENT_UNIT`."""
        return -(-self.segment // SEGMENT_UNIT) * SEGMENT_UNIT

    @property
    def is_even(self) -> bool:
        """Whether every segment has its full length and needs no zeros."""
        return self.padded_segment == self.segment and self.in_features % self.segment == 0

    @property
    def nest(self) -> tuple[int, int, int]:
        """Trip counts of three nested sums that add the segments in this order, the innermost last."""
        return sum_nest(self.segments, self.pairwise)


def sum_nest(parts: int, pairwise: bool) -> tuple[int, int, int]:
    """Trip counts of three nested sums, each from zero, that add `parts` numbers in ascending order
    or pairwise; adding a number to zero is exact, so the nest is that sum.

    Raises:
        ValueError: Pairwise with other than 1, 2, 4 or 8 parts.
    """
    if not pairwise:
        return 1, 1, parts
    if parts not in (1, 2, 4, 8):
        raise ValueError(f"pairwise sums have 1, 2, 4 or 8 parts, not {parts}")
    return max(1, parts // 4), 1 + (parts >= 4), 1 + (parts >= 2)
