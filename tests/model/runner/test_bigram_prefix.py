"""What stands before a token of which nothing else is known."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from spectrie._core import Tokenizer
from spectrie.model.config.model_config import ModelConfig
from spectrie.model.runner.bigram_prefix import bigram_prefix_of
from tests.tiny_model import write_tiny_model


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("beginning") / "tiny")


def test_a_tokenizer_begins_a_text_with_a_colon(folder: Path) -> None:
    ids = bigram_prefix_of(folder, ModelConfig.from_folder(folder))
    assert ids == Tokenizer.from_folder(folder).encode(":", add_special_tokens=True)
    assert Tokenizer.from_folder(folder).decode(ids) == ":"


def test_without_a_tokenizer_the_token_that_begins_or_ends_a_text_stands_there(
    folder: Path, tmp_path: Path
) -> None:
    values = json.loads((folder / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(values))
    config = ModelConfig.from_folder(tmp_path)
    assert bigram_prefix_of(tmp_path, config) == [values["bos_token_id"]]
    del values["bos_token_id"]
    (tmp_path / "config.json").write_text(json.dumps(values))
    config = ModelConfig.from_folder(tmp_path)
    assert bigram_prefix_of(tmp_path, config) == list(config.eos_token_ids)[:1] != []
