"""One safetensors file, mapped: arrays are views of it, whatever their number format."""

from __future__ import annotations

import json
import mmap
import struct
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import safe_open

from spectrie.model.files.arrays import Array

__all__ = ["TensorFile"]

# bfloat16 as its bits. Kinds of floats that are not here cannot be computed with.
_FLOATS = {"F32": np.float32, "BF16": np.uint16, "F16": np.float16}
_WHOLE = {
    "BOOL": np.bool_,
    "I8": np.int8,
    "I16": np.int16,
    "I32": np.int32,
    "I64": np.int64,
    "U8": np.uint8,
    "U16": np.uint16,
    "U32": np.uint32,
}


class TensorFile:
    """The tensors of a file by name.

    The library's own readers either need torch or copy, and have no bfloat16 without it. So it checks the file, and
    the arrays are made here.
    """

    def __init__(self, path: Path) -> None:
        """Maps the file without reading a tensor.

        Raises:
            Exception: It cannot be read, or is not safetensors; of whichever type the library has for it.
        """
        with safe_open(path, framework="np"):
            pass
        with path.open("rb") as file:
            # A private copy on write, as torch maps it: an array of a read-only map could not become a tensor.
            self._bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        (length,) = struct.unpack_from("<Q", self._bytes)
        self._first = 8 + length
        header: dict[str, Any] = json.loads(self._bytes[8 : self._first])
        self.metadata: dict[str, str] = header.pop("__metadata__", None) or {}
        """What the file says of itself."""
        self._entries = header

    def names(self) -> list[str]:
        """Returns the names of all tensors."""
        return list(self._entries)

    def kind(self, name: str) -> str:
        """Returns how a tensor's numbers are stored, such as `BF16`."""
        return str(self._entries[name]["dtype"])

    def shape(self, name: str) -> tuple[int, ...]:
        """Returns a tensor's shape."""
        return tuple(self._entries[name]["shape"])

    def floats(self, name: str) -> Array | None:
        """Returns a tensor of float32, float16 or bfloat16 as a view; None if it is of another kind."""
        dtype = _FLOATS.get(self.kind(name))
        return None if dtype is None else self._view(name, dtype)

    def numbers(self, name: str) -> Array | None:
        """Returns a tensor of whole numbers or of true and false as a view; None if it is of another kind."""
        dtype = _WHOLE.get(self.kind(name))
        return None if dtype is None else self._view(name, dtype)

    def _view(self, name: str, dtype: type[Any]) -> Array:
        first = self._first + self._entries[name]["data_offsets"][0]
        return np.ndarray(self.shape(name), dtype, self._bytes, first)
