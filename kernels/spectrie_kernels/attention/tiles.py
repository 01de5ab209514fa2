"""How attention cuts a step's rows into tiles: for speed alone."""

from __future__ import annotations

from dataclasses import dataclass

from spectrie_kernels.tables.tile_table import TileTable, current_table

__all__ = ["AttentionTiles"]

_MIN_ROWS = 16


@dataclass(frozen=True, slots=True)
class AttentionTiles:
    """Rows (nodes times the group) of the highest tiles; no bit of a result depends on them.

    Attributes:
        part_rows: In the split form; steps with less take lower tiles.
        prompt_rows: In that of prompts, which keep twice as many sums.
        one_width: Of every step's tiles, where a device has shown that width changes bits; else None.
    """

    part_rows: int = 64
    prompt_rows: int = 64
    one_width: int | None = None

    @classmethod
    def of(
        cls,
        head_dim: int,
        element_bytes: int,
        *,
        heads: tuple[int, int] | None = None,
        table: TileTable | None = None,
    ) -> AttentionTiles:
        """Returns tiles for heads of `head_dim`.

        Args:
            head_dim: Size of a head.
            element_bytes: Of the cache.
            heads: Query and key-value heads of the whole model, by which tuned tiles are found; None
                takes untuned ones, whose sums fit the registers of all devices from capability 8.0.
            table: Of tuned tiles; None takes that of the device.
        """
        table = current_table() if table is None else table
        tuned = None if heads is None else table.attention(*heads, head_dim, element_bytes)
        tiles = cls._untuned(head_dim, element_bytes) if tuned is None else cls(**tuned)
        if element_bytes == 2 and table.one_width is not None:
            return cls(table.one_width, table.one_width, table.one_width)
        return tiles

    @classmethod
    def _untuned(cls, head_dim: int, element_bytes: int) -> AttentionTiles:
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
        if self.one_width is not None:
            height = max(self.one_width, _power_of_two(group))
            return height, height
        least = max(_MIN_ROWS, _power_of_two(group))
        part = max(least, min(self.part_rows, _power_of_two(widest * group)))
        # More than a unit of 64 positions would leave the tile's last rows idle.
        return part, max(least, min(self.prompt_rows, _power_of_two(64 * group)))


def _power_of_two(least: int) -> int:
    return 1 << max(0, least - 1).bit_length()
