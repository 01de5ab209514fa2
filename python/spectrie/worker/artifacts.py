"""The model's files that a router needs, split into chunks."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from spectrie._proto import worker_pb2

__all__ = ["artifact_chunks"]

# tokenizer_config.json names the special tokens that templates print, and holds the template of
# older models.
ARTIFACTS = (
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
    "generation_config.json",
)
CHUNK_BYTES = 1 << 20


def artifact_chunks(folder: Path) -> Iterator[worker_pb2.ArtifactChunk]:
    """Yields every file of `ARTIFACTS` in `folder`, in chunks of at most 1 MiB.

    The last chunk of a file carries the SHA-256 of the whole file.
    """
    for name in ARTIFACTS:
        path = folder / name
        if path.is_file():
            yield from _chunks(name, path.read_bytes())


def _chunks(name: str, data: bytes) -> Iterator[worker_pb2.ArtifactChunk]:
    digest = hashlib.sha256(data).hexdigest()
    starts = range(0, max(len(data), 1), CHUNK_BYTES)
    for start in starts:
        last = start + CHUNK_BYTES >= len(data)
        yield worker_pb2.ArtifactChunk(
            name=name,
            data=data[start : start + CHUNK_BYTES],
            sha256=digest if last else None,
        )
