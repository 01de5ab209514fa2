"""Models as drafters through `spectrie.LLM`: no answer changes, and the model itself is always right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from spectrie.llm import LLM
from spectrie.types import Source
from tests.model.drafters.asked import Asked, make_levels_cheap
from tests.tiny_model import Shape, write_tiny_model

pytestmark = pytest.mark.usefixtures("own_cache")

SCARCE = 13
"""Pages for the longest request alone."""
SMALL = Shape(hidden=32, inner=48, layers=1, heads=3, kv_heads=1, window=24)
PROMPTS = [
    [*range(20, 80)],
    [5, 6, 7],
    [9],
    [*range(20, 90)],
    [*range(20, 72), *range(100, 140)],
    *([first, 3] for first in range(200, 206)),
]
"""Three of them begin alike, so that pages are shared."""


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A model, and a smaller one of its tokenizer."""
    folder = tmp_path_factory.mktemp("models")
    return write_tiny_model(folder / "model"), write_tiny_model(
        folder / "small", seed=2, shape=SMALL
    )


@pytest.fixture(autouse=True)
def _cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    make_levels_cheap(monkeypatch)


def answers(
    llm: LLM, prompts: list[list[int]], temperature: float, max_tokens: int = 90
) -> list[list[int]]:
    found = llm.generate(
        prompt_token_ids=prompts, max_tokens=max_tokens, temperature=temperature, seed=4
    )
    return [list(answer.token_ids) for answer in found]


def opened(model: Path, drafter: Path | None, **options: Any) -> LLM:
    chosen = "off" if drafter is None else str(drafter)
    return LLM(model, drafter=chosen, **({"threads": 1, "num_pages": 128} | options))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_answers_are_those_of_plain_decoding(
    models: tuple[Path, Path], dtype: str, temperature: float
) -> None:
    model, small = models
    found = []
    for drafter in (None, small, model):
        with opened(model, drafter, dtype=dtype) as llm:
            together = answers(llm, PROMPTS, temperature)
            # Those find the beginnings of their texts in the cache.
            again = answers(llm, PROMPTS[3:], temperature)
            found.append((together, again))
            load = llm.load()
            assert (load.head_levels > 0) == (drafter is not None)
    assert found[1] == found[0]
    assert found[2] == found[0]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"dtype": "bfloat16", "chunk_tokens": 16},
        {"num_pages": SCARCE, "max_context": 200, "chunk_tokens": 32, "max_running": 8},
    ],
    ids=["plain", "bfloat16", "scarce"],
)
def test_the_model_itself_is_right_at_every_node(
    models: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    model, _ = models
    asked = Asked(monkeypatch)
    with opened(model, model, **options) as llm:
        # Together, then with what they left in the cache; the trie drafts as well.
        rounds, found = [], []
        for number in range(10):
            rounds += PROMPTS[:: 1 - 2 * (number % 2)]
            found += answers(llm, rounds[-len(PROMPTS) :], 0.0)
            load = llm.load()
            # Where this thread is held up, steps end some requests before it has sent the others.
            if number and (load.preemptions or options.get("num_pages") != SCARCE):
                break
    texts = [[*prompt, *answer] for prompt, answer in zip(rounds, found, strict=True)]
    right, all_asked = asked.right(texts)
    assert all_asked > 60
    assert right == all_asked
    assert asked.most_levels >= 3
    assert load.accepted_by_source[Source.DRAFT_MODEL] > 20
    assert load.accepted_by_source[Source.HEAD] == 0
    from_text = [Source.REQUEST, Source.SHARED]
    assert sum(load.accepted_by_source[source] for source in from_text) > 20
    assert (load.preemptions > 0) == (options.get("num_pages") == SCARCE)


def test_another_model_is_not(models: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    model, small = models
    asked = Asked(monkeypatch)
    with opened(model, small) as llm:
        found = answers(llm, PROMPTS, 0.0)
    right, all_asked = asked.right([[*a, *b] for a, b in zip(PROMPTS, found, strict=True)])
    assert all_asked > 20
    assert right < all_asked / 2
