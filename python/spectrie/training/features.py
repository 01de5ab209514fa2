"""The target's features of all samples, on disk, read in any order."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from spectrie.printing.progress import Progress
from spectrie.training.texts.samples import Sample

__all__ = ["CachedText", "FeatureCache", "FeatureReader", "Features", "bytes_per_token"]

_SAVED_EVERY = 64


class Features(Protocol):
    """What the target gives at each of the `T` tokens of a text.

    Attributes:
        features: [T, width], any floating dtype.
        top_ids: int32 [T, K], the likeliest tokens behind each, likeliest first.
        top_log_probabilities: float32 [T, K], of the softmax over the whole vocabulary.
    """

    @property
    def features(self) -> torch.Tensor: ...
    @property
    def top_ids(self) -> torch.Tensor: ...
    @property
    def top_log_probabilities(self) -> torch.Tensor: ...


class FeatureReader(Protocol):
    """Runs texts through the target; yields one object for each, in order."""

    def __call__(self, texts: Iterable[Sequence[int]], /) -> Iterator[Features]: ...


@dataclass(frozen=True, slots=True)
class CachedText:
    """Features of one text of `T` tokens: float32 [T, width], int64 [T, K], float32 [T, K]."""

    features: torch.Tensor
    top_ids: torch.Tensor
    top_probabilities: torch.Tensor


def bytes_per_token(width: int, top: int) -> int:
    """What a token takes on disk: features in bfloat16, ids in 32 bits, probabilities in 16."""
    return 2 * width + 6 * top


class FeatureCache:
    """Three files of fixed size, and a note of how far they are filled; continues after a crash.

    Attributes:
        width: Width of a feature.
        top: Likeliest tokens kept of each row.
        key: Follows from samples and sizes.
    """

    def __init__(self, folder: Path, samples: Sequence[Sample], *, width: int, top: int) -> None:
        """Opens the cache of these samples; one of other samples in the same folder is overwritten.

        It takes `bytes_per_token` times the samples' tokens of disk, and no more.

        Raises:
            OSError: The files cannot be made.
        """
        self.width = width
        self.top = top
        self._samples = samples
        self._starts = np.cumsum([0] + [len(sample.token_ids) for sample in samples]).tolist()
        self._note = folder / "features.json"
        self.key = _key(samples, width, top)
        folder.mkdir(parents=True, exist_ok=True)
        self.num_done = self._stored()
        self._features = self._open(folder / "features.bin", np.uint16, width)
        self._ids = self._open(folder / "top_ids.bin", np.int32, top)
        self._probabilities = self._open(folder / "top_probabilities.bin", np.float16, top)

    def _stored(self) -> int:
        try:
            note = json.loads(self._note.read_text(encoding="utf-8"))
            return int(note["done"]) if note["key"] == self.key else 0
        except (OSError, ValueError, KeyError, TypeError):
            return 0

    def _open(self, path: Path, dtype: Any, columns: int) -> NDArray[Any]:
        shape = (max(int(self._starts[-1]), 1), columns)
        size = shape[0] * columns * np.dtype(dtype).itemsize
        whole = path.exists() and path.stat().st_size == size
        if not whole:
            self.num_done = 0
        return np.memmap(path, dtype, "r+" if whole else "w+", shape=shape)

    def fill(self, read: FeatureReader) -> None:
        """Computes what is missing."""
        missing = self._samples[self.num_done :]
        texts = (sample.token_ids for sample in missing)
        rows = int(self._starts[-1])
        with Progress("features", rows) as progress:
            began = int(self._starts[self.num_done])
            for features in read(texts) if missing else ():
                self._write(self.num_done, features)
                self.num_done += 1
                done = int(self._starts[self.num_done])
                rate = (done - began) / max(progress.elapsed_s, 1e-3)
                progress.show(done, f"{done:,} of {rows:,} tokens, {rate:.0f} a second")
                if self.num_done % _SAVED_EVERY == 0:
                    self._save()
        self._save()

    def _write(self, index: int, text: Features) -> None:
        rows = slice(int(self._starts[index]), int(self._starts[index + 1]))
        bits = text.features.to(torch.bfloat16).contiguous().view(torch.int16)
        self._features[rows] = bits.numpy().view(np.uint16)
        self._ids[rows] = text.top_ids.numpy()
        self._probabilities[rows] = text.top_log_probabilities.exp().half().numpy()

    def _save(self) -> None:
        for array in (self._features, self._ids, self._probabilities):
            if isinstance(array, np.memmap):
                array.flush()
        new = self._note.with_suffix(".new")
        new.write_text(json.dumps({"key": self.key, "done": self.num_done}), encoding="utf-8")
        os.replace(new, self._note)

    def read(self, index: int) -> CachedText:
        """Returns the features of a sample."""
        rows = slice(int(self._starts[index]), int(self._starts[index + 1]))
        bits = torch.from_numpy(np.array(self._features[rows]).view(np.int16))
        return CachedText(
            bits.view(torch.bfloat16).float(),
            torch.from_numpy(np.array(self._ids[rows])).long(),
            torch.from_numpy(np.array(self._probabilities[rows])).float(),
        )


def _key(samples: Sequence[Sample], width: int, top: int) -> str:
    digest = hashlib.sha256(f"{width} {top}".encode())
    for sample in samples:
        digest.update(np.array([len(sample.token_ids), *sample.token_ids], np.int32).tobytes())
    return digest.hexdigest()
