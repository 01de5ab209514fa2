"""Reads a GGUF file: metadata values, and tensors dequantised to NumPy arrays.

Follows the GGUF specification, version 3; the `gguf` package dequantises blocks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from spectrie.errors import ModelError

__all__ = ["GgufFile", "GgufTensor"]

_MAGIC = b"GGUF"
_UNKNOWN_KIND = re.compile(r"(\d+) is not a valid GGMLQuantizationType")


@dataclass(frozen=True, slots=True)
class GgufTensor:
    """A tensor of a GGUF file.

    Attributes:
        name: GGUF's name, such as `blk.0.attn_q.weight`.
        kind: Storage type, such as `Q4_1`, `BF16` or `F32`.
        shape: Rows first, as in torch and safetensors (the file stores it reversed).
        data: The stored blocks, a view of the mapped file.
        kind_number: The storage type's number in the file.
    """

    name: str
    kind: str
    shape: tuple[int, ...]
    data: npt.NDArray[Any]
    kind_number: Any

    @property
    def readable(self) -> bool:
        """Returns whether the installed `gguf` package can dequantise its storage type."""
        import gguf

        try:
            gguf.dequantize(self.data[:1], self.kind_number)
        except NotImplementedError:
            return False
        return True

    def dequantised(self) -> npt.NDArray[np.float32]:
        """Returns the values as a contiguous float32 array of `shape`.

        Raises:
            ModelError: The storage type is not `readable`.
        """
        import gguf

        try:
            values = gguf.dequantize(self.data, self.kind_number)
        except NotImplementedError as error:
            raise ModelError(f"tensor {self.name} has storage type {self.kind}: {error}") from error
        return np.ascontiguousarray(values, dtype=np.float32).reshape(self.shape)


class GgufFile:
    """A GGUF file open for reading; tensors are mapped, not loaded.

    Args:
        path: The file.

    Raises:
        ModelError: It is missing, not GGUF, truncated, or the `gguf` package is not installed.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with path.open("rb") as file:
                magic = file.read(len(_MAGIC))
        except OSError as error:
            raise ModelError(f"cannot read {path}: {error.strerror}") from error
        if magic != _MAGIC:
            raise ModelError(f"{path} is not a GGUF file: it starts with {magic!r}, not {_MAGIC!r}")
        try:
            import gguf
        except ImportError as error:
            raise ModelError(
                "reading GGUF files requires the gguf package: pip install 'spectrie[cpu]'"
            ) from error
        try:
            self._reader = gguf.GGUFReader(path)
        except Exception as error:  # the reader checks little: any other error means damaged bytes
            if unknown := _UNKNOWN_KIND.fullmatch(str(error)):
                raise ModelError(
                    f"{path} has tensors of storage type number {unknown[1]}, which the installed gguf "
                    "package does not know: upgrade it, or use a file of a common type, such as Q4_K_M"
                ) from error
            raise ModelError(f"{path} is truncated or damaged: {error}") from error
        parts = self.value("split.count", 1)
        if parts > 1:
            raise ModelError(
                f"{path} is one of {parts} parts: merge them with llama.cpp's "
                "`llama-gguf-split --merge` and give the whole file"
            )

    def keys(self, prefix: str) -> list[str]:
        """Returns the metadata keys that start with `prefix`, sorted."""
        return sorted(key for key in self._reader.fields if key.startswith(prefix))

    def value(self, key: str, default: Any = None) -> Any:
        """Returns the metadata value of `key` as a Python value, or `default` if it is absent."""
        field = self._reader.fields.get(key)
        if field is None:
            return default
        try:
            return field.contents()
        except Exception as error:
            raise ModelError(f"{self.path}: metadata {key} cannot be read: {error}") from error

    def required(self, key: str) -> Any:
        """Returns the metadata value of `key`.

        Raises:
            ModelError: It is absent.
        """
        value = self.value(key)
        if value is None:
            raise ModelError(f"{self.path} lacks the metadata key {key}")
        return value

    @property
    def architecture(self) -> str:
        """Value of `general.architecture`, such as `llama`."""
        return str(self.required("general.architecture"))

    def tensors(self) -> Iterator[GgufTensor]:
        """Returns all tensors in file order."""
        for tensor in self._reader.tensors:
            yield GgufTensor(
                name=str(tensor.name),
                kind=str(tensor.tensor_type.name),
                shape=tuple(int(n) for n in reversed(tensor.shape)),
                data=tensor.data,
                kind_number=tensor.tensor_type,
            )
