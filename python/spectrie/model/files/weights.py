"""Reads the tensors of a checkpoint by name from memory-mapped safetensors."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open

from spectrie.errors import ModelError
from spectrie.model.files.checkpoint import weight_files

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
        self._files: dict[str, Any] = {}
        self._metadata: list[dict[str, str]] = []
        for path in weight_files(folder):
            try:
                file = safe_open(path, framework="pt", device="cpu")
            except Exception as error:
                raise ModelError(f"cannot read {path}: {error}") from error
            self._metadata.append(_metadata(file))
            for name in _names(file):
                self._files[name] = file
        self._taken: set[str] = set()

    def __contains__(self, name: str) -> bool:
        return name in self._files

    def names(self) -> list[str]:
        """Returns the names of all tensors, sorted."""
        return sorted(self._files)

    def take(self, name: str, shape: tuple[int, ...]) -> torch.Tensor:
        """Returns the tensor `name` in its stored dtype, as a view of the mapped file.

        Raises:
            ModelError: It is missing, has another shape, or is not floating-point.
        """
        self._refuse_quantised(name)
        file = self._files.get(name)
        if file is None:
            raise ModelError(f"{self._folder}: tensor {name} is missing")
        tensor = _tensor(file, name)
        if tuple(tensor.shape) != shape:
            raise ModelError(
                f"{self._folder}: tensor {name} has shape {tuple(tensor.shape)}, expected {shape}"
            )
        if not tensor.dtype.is_floating_point or tensor.dtype.itemsize < 2:
            raise ModelError(
                f"{self._folder}: tensor {name} is {tensor.dtype}, "
                "supported: float32, bfloat16, float16"
            )
        self._taken.add(name)
        return tensor

    def numbers(self, name: str, shape: tuple[int, ...]) -> torch.Tensor:
        """Returns a tensor of whole numbers or of true and false, as int64.

        Raises:
            ModelError: It is missing, has another shape, or holds fractions.
        """
        if self.shape(name) != shape:
            raise ModelError(
                f"{self._folder}: tensor {name} has shape {self.shape(name)}, expected {shape}"
            )
        tensor = _tensor(self._files[name], name)
        if tensor.dtype.is_floating_point or tensor.dtype.is_complex:
            raise ModelError(
                f"{self._folder}: tensor {name} is {tensor.dtype}, expected whole numbers"
            )
        self._taken.add(name)
        return tensor.long()

    def shape(self, name: str) -> tuple[int, ...]:
        """Returns a tensor's shape without reading it.

        Raises:
            ModelError: It is missing.
        """
        file = self._files.get(name)
        if file is None:
            raise ModelError(f"{self._folder}: tensor {name} is missing")
        return tuple(file.get_slice(name).get_shape())

    def metadata(self, key: str) -> str | None:
        """Returns what the files' metadata have under a key; None if none has it.

        Raises:
            ModelError: The files do not agree.
        """
        found = {values[key] for values in self._metadata if key in values}
        if len(found) > 1:
            raise ModelError(f"{self._folder}: the files have different metadata {key!r}")
        return found.pop() if found else None

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


def _names(file: Any) -> list[str]:
    return list(file.keys())


def _metadata(file: Any) -> dict[str, str]:
    return dict(file.metadata() or {})


def _tensor(file: Any, name: str) -> torch.Tensor:
    tensor: torch.Tensor = file.get_tensor(name)
    return tensor
