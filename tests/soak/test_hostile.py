"""Nobody notices hostile tenants in tokens or bytes, with contexts of 131,072 tokens."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.hostile.child import HOSTILE, Options
from bench.hostile.run import MEMORY, both
from tests.tiny_model import Shape, write_tiny_model

MORE_BYTES = 32 << 20
"""What else of the process may grow by, under hostile load."""

MAX_CONTEXT = 131_072
# Keys and values of 128 bytes a token: 16 MiB for a full context.
SHAPE = Shape(hidden=32, inner=32, layers=1, heads=1, kv_heads=1)
WINDOW = 1_024
"""With it a prompt that fills the context takes 0.6 s on two cores instead of 19 s."""
KV_BYTES = 40 << 20
"""Two full contexts and a half: of four that are kept up, some wait, and cached pages are pushed out."""
DRAFT_BYTES = 8 << 20
ROUNDS, SLOW_ANSWERS = 2, 8

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/status").is_file(), reason="the system does not tell resident memory"
)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is measured of tiny models stays out of the user's cache."""
    monkeypatch.setenv("SPECTRIE_CACHE", str(tmp_path / "cache"))


def check(folder: Path, *, tenants: int, seconds: float, least_answered: int) -> None:
    """Both runs give the same answers, and the hostile one stays within its memory."""
    calm, hostile = both(
        Options(
            model=str(folder),
            threads=2,
            dtype="float32",
            tenants=tenants,
            rounds=ROUNDS,
            seconds=seconds,
            kv_bytes=KV_BYTES,
            draft_bytes=DRAFT_BYTES,
            # A forward of so small a model takes no longer than a draft.
            drafting_cost_ms=0.0,
            temperature=1.0,
            slow_answers=SLOW_ANSWERS,
            least_answered=least_answered,
        )
    )
    check_answers(calm["tokens"], hostile["tokens"], (tenants - HOSTILE) * ROUNDS + SLOW_ANSWERS)
    assert hostile["draft_bytes"] <= MEMORY * DRAFT_BYTES
    assert hostile["rest_bytes"] <= hostile["rest_bytes_before"] + MORE_BYTES
    # Without these nothing would have been tried.
    assert hostile["errors"] == []
    assert min(hostile["answered"].values()) >= least_answered
    assert hostile["prompt_tokens"] - calm["prompt_tokens"] > (least_answered - 1) * MAX_CONTEXT
    assert hostile["draft_bytes"] > DRAFT_BYTES / 2
    # A machine whose forwards are slow by the row drafts little beside prompts.
    assert calm["accepted_tokens"] + hostile["accepted_tokens"] > 0


def check_answers(calm: list[Any], hostile: list[Any], count: int) -> None:
    """Each answer is there in both runs, with the same tokens."""
    assert len(calm) == len(hostile) == count
    assert [
        number
        for number, (one, other) in enumerate(zip(calm, hostile, strict=True))
        if one != other
    ] == []
    # If answers to unlike questions were alike, a mix-up would not show.
    assert len(set(map(tuple, calm))) > count / 3


def test_nobody_notices_contexts_of_128k(tmp_path: Path) -> None:
    shape = replace(SHAPE, window=WINDOW)
    folder = write_tiny_model(tmp_path / "tiny", max_context=MAX_CONTEXT, shape=shape)
    check(folder, tenants=40, seconds=5.0, least_answered=2)


@pytest.mark.deep
@pytest.mark.timeout(3600)
def test_nobody_notices_many_contexts_of_128k_without_a_window(tmp_path: Path) -> None:
    folder = write_tiny_model(tmp_path / "tiny", max_context=MAX_CONTEXT, shape=SHAPE)
    check(folder, tenants=200, seconds=120.0, least_answered=8)
