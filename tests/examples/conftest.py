"""A model whose answers end at their number of tokens alone, and a server of it at one address."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.tiny_model import write_tiny_model


@pytest.fixture(scope="session")
def endless(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder without an end-of-sequence token."""
    folder = write_tiny_model(tmp_path_factory.mktemp("endless") / "tiny", max_context=4096)
    config = json.loads((folder / "config.json").read_text())
    del config["eos_token_id"]
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "generation_config.json").write_text("{}")
    return folder
