"""The model's files that a router needs, cut into chunks."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from spectrie._proto import worker_pb2

__all__ = ["artifact_chunks"]

ARTIFACTS = ("tokenizer.json", "chat_template.jinja", "generation_config.json")
CHUNK_BYTES = 1 << 20


def artifact_chunks(folder: Path) -> Iterator[worker_pb2.ArtifactChunk]:
    """Yields every file of `ARTIFACTS` that `folder` has, in chunks of at most 1 MiB.

    The last chunk of a file carries the SHA-256 of the whole file. A chat template that only
    tokenizer_config.json holds is sent as chat_template.jinja.
    """
    for name in ARTIFACTS:
        data = _content(folder, name)
        if data is not None:
            yield from _chunks(name, data)


def _content(folder: Path, name: str) -> bytes | None:
    path = folder / name
    if path.is_file():
        return path.read_bytes()
    if name == "chat_template.jinja":
        from spectrie.worker.template import embedded_chat_template

        template = embedded_chat_template(folder)
        return None if template is None else template.encode()
    return None


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
