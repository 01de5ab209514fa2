"""What a router gets of a model folder."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from spectrie.errors import ModelError
from spectrie.worker.artifacts import CHUNK_BYTES, artifact_chunks
from spectrie.worker.defaults import SamplingDefaults, read_sampling_defaults


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


def test_template_inside_tokenizer_config_is_sent_as_a_file(tmp_path: Path) -> None:
    templates = [{"name": "tools", "template": "no"}, {"name": "default", "template": "yes é"}]
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": templates}))
    assert collect(tmp_path) == {"chat_template.jinja": "yes é".encode()}


def test_template_file_wins_over_tokenizer_config(tmp_path: Path) -> None:
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": "old"}))
    (tmp_path / "chat_template.jinja").write_text("new")
    assert collect(tmp_path) == {"chat_template.jinja": b"new"}


def test_broken_tokenizer_config_has_no_template(tmp_path: Path) -> None:
    (tmp_path / "tokenizer_config.json").write_text("{")
    assert collect(tmp_path) == {}


def test_absent_generation_config_gives_the_wires_defaults(tmp_path: Path) -> None:
    assert read_sampling_defaults(tmp_path) == SamplingDefaults(1.0, 1.0, 0, 0.0, 1.0)


def test_generation_config_sets_what_it_names(tmp_path: Path) -> None:
    (tmp_path / "generation_config.json").write_text('{"temperature": 0.2, "top_k": 50}')
    assert read_sampling_defaults(tmp_path) == SamplingDefaults(temperature=0.2, top_k=50)


@pytest.mark.parametrize("content", ["{", "[1]", '{"top_p": "high"}', '{"top_k": true}'])
def test_unreadable_generation_config_is_an_error_that_names_it(
    tmp_path: Path, content: str
) -> None:
    (tmp_path / "generation_config.json").write_text(content)
    with pytest.raises(ModelError, match=r"generation_config\.json"):
        read_sampling_defaults(tmp_path)
