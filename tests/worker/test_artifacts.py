"""What a router gets of a model folder."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from spectrie.worker.artifacts import CHUNK_BYTES, artifact_chunks


def collect(folder: Path) -> dict[str, bytes]:
    """Files by name, put together from chunks whose checksum is right."""
    files: dict[str, bytes] = {}
    for chunk in artifact_chunks(folder):
        assert len(chunk.data) <= CHUNK_BYTES
        files[chunk.name] = files.get(chunk.name, b"") + chunk.data
        if chunk.HasField("sha256"):
            assert chunk.sha256 == hashlib.sha256(files[chunk.name]).hexdigest()
    return files


def test_large_file_comes_in_chunks_that_add_up(tmp_path: Path) -> None:
    data = bytes(range(256)) * (CHUNK_BYTES // 128)
    (tmp_path / "tokenizer.json").write_bytes(data)
    chunks = list(artifact_chunks(tmp_path))
    assert [chunk.HasField("sha256") for chunk in chunks] == [False, True]
    assert collect(tmp_path) == {"tokenizer.json": data}


def test_every_file_about_text_is_sent_as_it_is(tmp_path: Path) -> None:
    files = {
        "tokenizer.json": b"{}",
        "tokenizer_config.json": json.dumps({"bos_token": "<s>"}).encode(),
        "chat_template.jinja": "{{ bos_token }} é".encode(),
        "generation_config.json": b"{}",
    }
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    (tmp_path / "model.safetensors").write_bytes(b"not for the router")
    assert collect(tmp_path) == files
