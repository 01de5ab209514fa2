"""Reads the tensors of a checkpoint by name from memory-mapped safetensors."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from spectrie.errors import ModelError
from spectrie.model.files.arrays import Array
from spectrie.model.files.checkpoint import weight_files
from spectrie.model.files.tensor_file import TensorFile

if TYPE_CHECKING:
    import torch

__all__ = ["Weights"]

# Buffers that some checkpoints carry and that the configuration already determines.
_IGNORED_SUFFIXES = (".rotary_emb.inv_freq", ".attn.bias", ".attn.masked_bias")

# What quantised checkpoints keep instead of a weight, or beside it.
_QUANTISED_SUFFIXES = (
    "weight_scale",
    "weight_scale_inv",
    "weight_packed",
    "weight.absmax",
    "qweight",
    "qzeros",
    "scales",
    "SCB",
)


class Weights:
    """The tensors of a model folder. Each is taken once; tensors left over are an error."""

    def __init__(self, folder: Path) -> None:
        """Maps the files without reading a tensor.

        Raises:
            ModelError: There are no weights, or a file is not safetensors.
        """
        self._folder = folder
        self._files: dict[str, TensorFile] = {}
        self._metadata: list[dict[str, str]] = []
        for path in weight_files(folder):
            try:
                file = TensorFile(path)
            except Exception as error:
                raise ModelError(f"cannot read {path}: {error}") from error
            self._metadata.append(file.metadata)
            for name in file.names():
                self._files[name] = file
        self._taken: set[str] = set()

    def __contains__(self, name: str) -> bool:
        return name in self._files

    def names(self) -> list[str]:
        """Returns the names of all tensors, sorted."""
        return sorted(self._files)

    def take(self, name: str, shape: tuple[int, ...]) -> Array:
        """Returns the tensor `name` in its stored number format, as a view of the mapped file.

        Raises:
            ModelError: It is missing, has another shape, or is not floating-point.
        """
        self._refuse_quantised(name)
        file = self._of_shape(name, shape)
        array = file.floats(name)
        if array is None:
            raise ModelError(
                f"{self._folder}: tensor {name} is {file.kind(name)}, "
                "supported: float32, bfloat16, float16"
            )
        self._taken.add(name)
        return array

    def tensor(self, name: str, shape: tuple[int, ...]) -> torch.Tensor:
        """Like `take`, but returns a tensor of torch."""
        from spectrie.model.files.tensors import as_tensor

        return as_tensor(self.take(name, shape))

    def numbers(self, name: str, shape: tuple[int, ...]) -> NDArray[np.int64]:
        """Returns a tensor of whole numbers or of true and false, as int64.

        Raises:
            ModelError: It is missing, has another shape, or holds fractions.
        """
        file = self._of_shape(name, shape)
        array = file.numbers(name)
        if array is None:
            raise ModelError(
                f"{self._folder}: tensor {name} is {file.kind(name)}, expected whole numbers"
            )
        self._taken.add(name)
        return array.astype(np.int64)

    def shape(self, name: str) -> tuple[int, ...]:
        """Returns a tensor's shape without reading it.

        Raises:
            ModelError: It is missing.
        """
        return self._file(name).shape(name)

    def metadata(self, key: str) -> str | None:
        """Returns what the files' metadata have under a key; None if none has it.

        Raises:
            ModelError: The files do not agree.
        """
        found = {values[key] for values in self._metadata if key in values}
        if len(found) > 1:
            raise ModelError(f"{self._folder}: the files have different metadata {key!r}")
        return found.pop() if found else None

    def _file(self, name: str) -> TensorFile:
        file = self._files.get(name)
        if file is None:
            raise ModelError(f"{self._folder}: tensor {name} is missing")
        return file

    def _of_shape(self, name: str, shape: tuple[int, ...]) -> TensorFile:
        file = self._file(name)
        if file.shape(name) != shape:
            raise ModelError(
                f"{self._folder}: tensor {name} has shape {file.shape(name)}, expected {shape}"
            )
        return file

    def _refuse_quantised(self, name: str) -> None:
        stem = name.removesuffix("weight")
        for suffix in _QUANTISED_SUFFIXES if stem != name else ():
            if stem + suffix in self._files:
                raise ModelError(
                    f"{self._folder}: {name} is quantised ({stem}{suffix} is present), which is not "
                    "supported; use the model's original in bfloat16, float16 or float32, or a GGUF "
                    "file of it"
                )

    def check_all_taken(self, expected: Iterable[str] = ()) -> None:
        """Checks that every tensor of the files was taken.

        Args:
            expected: Names that may be left over, such as the copy of a tied head.

        Raises:
            ModelError: Tensors are left over; the message names up to eight of them.
        """
        left = sorted(set(self._files) - self._taken - set(expected))
        left = [name for name in left if not name.endswith(_IGNORED_SUFFIXES)]
        if left:
            shown = ", ".join(left[:8]) + (", ..." if len(left) > 8 else "")
            raise ModelError(f"{self._folder}: {len(left)} unexpected tensors: {shown}")
