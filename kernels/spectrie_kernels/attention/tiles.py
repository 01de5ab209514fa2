"""How attention cuts a step's rows into tiles: for speed alone."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["AttentionTiles"]

_MIN_ROWS = 16


@dataclass(frozen=True, slots=True)
class AttentionTiles:
    """Rows (nodes times the group) of the highest tiles; no bit of a result depends on them.

    Attributes:
        part_rows: In the split form; steps with less take lower tiles.
        prompt_rows: In that of prompts, which keep twice as many sums.
    """

    part_rows: int = 64
    prompt_rows: int = 64

    @classmethod
    def of(cls, head_dim: int, element_bytes: int) -> AttentionTiles:
        """Returns untuned tiles whose sums fit the registers of all devices from capability 8.0."""
        if element_bytes > 2:
            return cls(16, 16)
        if head_dim > 128:
            return cls(32, 16)
        return cls(64 if head_dim > 64 else 32, 32)

    def heights(self, group: int, widest: int) -> tuple[int, int]:
        """Heights of the tiles of a step: of the split form and of prompts.

        Args:
            group: Query heads of a key-value head; a node's are in one tile.
            widest: Most rows of a request in the split form.
        """
        least = max(_MIN_ROWS, _power_of_two(group))
        part = max(least, min(self.part_rows, _power_of_two(widest * group)))
        # More than a unit of 64 positions would leave the tile's last rows idle.
        return part, max(least, min(self.prompt_rows, _power_of_two(64 * group)))


def _power_of_two(least: int) -> int:
    return 1 << max(0, least - 1).bit_length()
