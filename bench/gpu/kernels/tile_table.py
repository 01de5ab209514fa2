"""The table of the tiles that were fastest on a device: `tiles-<device>.json` beside the results.

Tiles decide speed and no bit, so a product may read it or not. It holds `linear`, a list of weights:
`out_features`, `in_features`, `dtype`, `up_to_rows` (of the input), what `LinearTiles`
takes, `microseconds`, and `untuned_microseconds` of the tiles without a table; and `attention`, a list by
`heads`, `kv_heads`, `head_dim` and `dtype` of what `AttentionTiles` takes, and the same two times.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

__all__ = ["TileTable"]

_KEYS = {
    "linear": ("out_features", "in_features", "dtype", "up_to_rows"),
    "attention": ("heads", "kv_heads", "head_dim", "dtype"),
}


class TileTable:
    """The table of one device, on the disk after each entry.

    Args:
        folder: Where it is.
        device: Name of the device.
    """

    def __init__(self, folder: Path, device: str) -> None:
        slug = re.sub(r"[^a-z0-9]+", "-", device.lower()).strip("-") or "unknown"
        self.path = folder / f"tiles-{slug}.json"
        self._device = device
        self._entries: dict[str, list[dict[str, Any]]] = {kind: [] for kind in _KEYS}
        if self.path.exists():
            stored = json.loads(self.path.read_text(encoding="utf-8"))
            self._entries |= {kind: stored[kind] for kind in _KEYS}

    def add(self, kind: str, entry: Mapping[str, Any]) -> None:
        """Puts an entry in the place of the one with the same key, and writes the file."""
        keys = _KEYS[kind]
        self._entries[kind] = [
            one for one in self._entries[kind] if any(one[key] != entry[key] for key in keys)
        ]
        self._entries[kind].append(dict(entry))
        part = self.path.with_suffix(".part")
        part.write_text(
            json.dumps({"device": self._device, **self._entries}, indent=1) + "\n", encoding="utf-8"
        )
        os.replace(part, self.path)
