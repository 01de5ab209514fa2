"""A replay of recorded answers takes about as many steps as the engine that served them."""

from __future__ import annotations

from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from bench.draft.heads.live import compare
from spectrie.model import load_runner
from tests.model.drafters.heads import write_tiny_head
from tests.tiny_model import write_tiny_model


def repetitive_model(folder: Path) -> Path:
    """A model whose layers hardly matter, so that its answers run in circles and can be drafted."""
    write_tiny_model(folder)
    path = folder / "model.safetensors"
    tensors = {
        name: value * 0.3 if "o_proj" in name or "down_proj" in name else value
        for name, value in load_file(path).items()
    }
    save_file(tensors, path, {"format": "pt"})
    return folder


def test_a_replay_takes_about_the_steps_of_the_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPECTRIE_CACHE", str(tmp_path / "cache"))
    runner = load_runner(
        repetitive_model(tmp_path / "tiny"),
        dtype="float32",
        num_pages=64,
        threads=1,
        max_batch_rows=80,
        drafter=write_tiny_head(tmp_path / "head"),
    )
    prompts = [[5, 6, 7, 10 + 37 * index] for index in range(6)]
    found = compare(runner, prompts, max_tokens=150)
    runner.close()
    assert found.tokens > 800
    assert 2 < found.live < 12
    # Some hundred steps: one more or less is one in a hundred.
    assert found.ratio == pytest.approx(1, abs=0.05)
