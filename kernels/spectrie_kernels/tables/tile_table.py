"""The tiles that were fastest on a device, as `bench.gpu.visit kernels` found them: speed alone, no bit.

`tiles-<device>.json` beside this file holds `linear`, a list by `out_features`, `in_features`, `dtype` and
`up_to_rows` of what `LinearTiles` takes; `attention`, a list by `heads`, `kv_heads`, `head_dim` and
`dtype` of what `AttentionTiles` takes; and possibly `one_width`: where a device has shown that the
width of a tile changes bits, the one that every step takes. What a table says of the order of additions is
not read: that is a constant of a weight. Without a table for the device, tiles follow from shapes.
"""

from __future__ import annotations

import functools
import json
import re
import warnings
from pathlib import Path
from typing import Any

import torch

__all__ = ["FOLDER", "TileTable", "current_table", "table_name"]

FOLDER = Path(__file__).parent
_WIDTHS = (16, 32, 64)
_DTYPES = {2: ("bfloat16", "float16"), 4: ("float32",)}
_LINEAR = ("split", "features", "rows", "depth", "warps", "stages")
_ATTENTION = ("part_rows", "prompt_rows")


class TileTable:
    """What one device runs fastest; empty if nothing is known of it.

    Args:
        content: Of the file.

    Raises:
        ValueError: It is no table; the message says why.
    """

    def __init__(self, content: Any = None) -> None:
        content = {} if content is None else content
        if not isinstance(content, dict):
            raise ValueError("a table of tiles is an object")
        self.one_width: int | None = content.get("one_width")
        if self.one_width not in (None, *_WIDTHS):
            raise ValueError(f"one_width is {self.one_width}, expected one of {_WIDTHS}")
        self._linear: dict[tuple[Any, ...], dict[str, Any]] = {}
        self._attention: dict[tuple[Any, ...], dict[str, Any]] = {}
        try:
            for one in content.get("linear", []):
                key = (one["out_features"], one["in_features"], one["dtype"], one["up_to_rows"])
                self._linear[key] = {name: one[name] for name in _LINEAR}
            for one in content.get("attention", []):
                key = (one["heads"], one["kv_heads"], one["head_dim"], one["dtype"])
                self._attention[key] = {name: one[name] for name in _ATTENTION}
        except (KeyError, TypeError) as error:
            raise ValueError(f"an entry of a table of tiles is incomplete: {error!r}") from error

    @property
    def row_limits(self) -> tuple[int, ...]:
        """Numbers of rows up to which products were tuned, ascending."""
        return tuple(sorted({key[3] for key in self._linear}))

    def linear(
        self, rows: int, out_features: int, in_features: int, element_bytes: int
    ) -> dict[str, Any] | None:
        """Returns the arguments of `LinearTiles` of a weight for so many rows; None if it was not tuned."""
        limit = next((most for most in self.row_limits if most >= rows), None)
        found = (
            self._linear.get((out_features, in_features, dtype, limit))
            for dtype in _DTYPES.get(element_bytes, ())
        )
        return next((one for one in found if one is not None), None)

    def attention(
        self, heads: int, kv_heads: int, head_dim: int, element_bytes: int
    ) -> dict[str, Any] | None:
        """Returns the arguments of `AttentionTiles` of a model; None if it was not tuned."""
        found = (
            self._attention.get((heads, kv_heads, head_dim, dtype))
            for dtype in _DTYPES.get(element_bytes, ())
        )
        return next((one for one in found if one is not None), None)

    @classmethod
    def of_device(cls, device: str, folder: Path | None = None) -> TileTable:
        """Returns the table of the device of this name, an empty one if there is none.

        A file that is no table is left out with a warning: speed alone depends on it.
        """
        path = (folder or FOLDER) / table_name(device)
        try:
            return cls(json.loads(path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return cls()
        except (OSError, ValueError) as error:
            warnings.warn(f"{path.name} is not read: {error}", stacklevel=2)
            return cls()


def table_name(device: str) -> str:
    """Returns the name of the file for the device of this name."""
    slug = re.sub(r"[^a-z0-9]+", "-", device.lower()).strip("-") or "unknown"
    return f"tiles-{slug}.json"


@functools.cache
def current_table() -> TileTable:
    """Returns the table of this machine's first GPU, read once: tiles stay the same while graphs do."""
    if not torch.cuda.is_available():
        return TileTable()
    return TileTable.of_device(torch.cuda.get_device_name(0))
