"""The tiny model, opened once for the tests of a module that need nothing else of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from spectrie.llm import LLM
from tests.tiny_model import write_tiny_model


@pytest.fixture(scope="module")
def llm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LLM]:
    """Modules that need other options have their own."""
    folder = tmp_path_factory.mktemp("llm")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPECTRIE_CACHE", str(folder / "cache"))
        model = write_tiny_model(folder / "tiny")
        with LLM(model, dtype="float32", threads=1, num_pages=128) as llm:
            yield llm
