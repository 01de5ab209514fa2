"""What a drafter answers while requests are served is what it answers to the same text computed at once."""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spectrie.engine.options import EngineOptions
from spectrie.llm import LLM
from spectrie.model import Runner, load_runner
from tests.model.drafters.asked import make_levels_pay
from tests.model.drafters.kinds import write_drafter, write_model
from tests.model.drafters.served import Answered, Served, Text
from tests.model.drafters.session import Request, draft_path, feed
from tests.tiny_model import VOCABULARY_SIZE

pytestmark = pytest.mark.usefixtures("own_cache")

MAX_CONTEXT = 256
NEW_TOKENS = 110
SCARCE = MAX_CONTEXT // 16
"""Pages for the longest request alone."""

MOST_NAMED = 8
COMPARED = 40
"""Texts that are computed again."""

WAYS: list[dict[str, Any]] = [
    # Alone, in large chunks; then in company, with hits and preemption, in chunks across pages.
    {"num_pages": 512, "max_running": 1, "chunk_tokens": 256, "threads": 2},
    {"num_pages": SCARCE, "max_running": 8, "chunk_tokens": 16, "threads": 1},
    {"num_pages": 512, "max_running": 8, "chunk_tokens": 1, "threads": 1},
]


def prompts() -> list[list[int]]:
    """Some begin alike, within a page and at its end; one is a single token."""
    draw = random.Random(3)
    text = draw.choices(range(3, VOCABULARY_SIZE), k=80)
    return [text[:60], text[:48] + text[70:], text[:52] + text[60:65], [7]]


def serve(model: Path, drafter: Path, served: Served, dtype: str) -> int:
    """Answers each prompt in every way, and returns how often requests lost their pages."""
    preemptions = 0
    for way in WAYS:
        served.begin()
        with LLM(
            model,
            dtype=dtype,
            drafter=str(drafter),
            max_context=MAX_CONTEXT,
            memory_bytes=0,
            drafting_cost_ms=0.0,
            bigrams="off",
            **way,
        ) as llm:
            found = llm.generate(
                prompt_token_ids=prompts(),
                max_tokens=NEW_TOKENS,
                temperature=0.7,
                seed=5,
                ignore_eos=True,
            )
            assert all(len(answer.token_ids) == NEW_TOKENS for answer in found)
            preemptions += llm.load().preemptions
    return preemptions


def computed_at_once(runner: Runner, text: Text, given: Answered) -> bool:
    """Whether a drafter whose memory is poison gives the same bytes after one chunk of the text."""
    assert runner.native is not None
    runner.native.poison_drafter(float("nan"))
    committed, path = text
    request = Request(runner, range(32))
    feed(request, committed, MAX_CONTEXT)
    named = list(given[2])
    answers = [draft_path(request, path, part)[-1] for part in _parts(named)]
    scored = b"".join(answer.scored.tobytes() for answer in answers)
    return scored == b"".join(given[2].values()) and all(
        (one.ids[0].tobytes(), one.probabilities[0].tobytes()) == given[:2] for one in answers
    )


def _parts(named: list[int]) -> list[list[int]]:
    """Tokens that fit one row each."""
    return [named[first : first + MOST_NAMED] for first in range(0, max(len(named), 1), MOST_NAMED)]


def check(kind: str, dtype: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Serves, and compares what was answered with itself and with what is computed at once."""
    model = write_model(folder / "tiny")
    drafter = write_drafter(kind, model, folder / "drafter")
    # With room for what they will grow by, requests would never lose their pages.
    options = partial(EngineOptions, lookahead_tokens=0)
    monkeypatch.setattr("spectrie.llm.settings.EngineOptions", options)
    with monkeypatch.context() as patch:
        make_levels_pay(patch)
        served = Served(patch)
        preemptions = serve(model, drafter, served, dtype)
    assert served.differing == []
    assert served.num_again > 100
    assert preemptions > 0
    # The longest, which are a hundred steps and more behind their prompts, and any others.
    texts = sorted(served.answers, key=lambda text: len(text[0]))
    assert len(texts[-1][0]) > 150
    if kind not in ("dflash", "dflash2", "peagle"):
        assert max(len(path) for _, path in texts) >= 3
    chosen = texts[-COMPARED // 2 :] + random.Random(1).sample(texts, COMPARED // 2)
    runner = load_runner(model, dtype=dtype, threads=1, num_pages=64, drafter=drafter)
    different = [
        text for text in chosen if not computed_at_once(runner, text, served.answers[text])
    ]
    assert different == []
    probabilities = (np.frombuffer(one[1], np.float32) for one in served.answers.values())
    assert all(np.isfinite(one).all() for one in probabilities)


QUICK = [("eagle3", "bfloat16"), ("eagle2", "float32"), ("mtp", "bfloat16"), ("dflash2", "float32")]
OTHERS = [
    (kind, dtype)
    for kind in ("eagle3", "peagle", "eagle2", "mtp", "dflash", "dflash2", "model", "itself")
    for dtype in ("float32", "bfloat16")
    if (kind, dtype) not in QUICK
]


@pytest.mark.parametrize(("kind", "dtype"), QUICK)
def test_answers_are_the_same_bytes_however_requests_came_to_where_they_are(
    kind: str, dtype: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check(kind, dtype, tmp_path, monkeypatch)


@pytest.mark.deep
@pytest.mark.parametrize(("kind", "dtype"), OTHERS)
def test_answers_are_the_same_bytes_in_the_other_formats(
    kind: str, dtype: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check(kind, dtype, tmp_path, monkeypatch)
