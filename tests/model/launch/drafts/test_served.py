"""A drafter on a GPU changes no answer, however requests are run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pytest

from bench.gpu.simulated import simulated_gpu, small_start
from spectrie.engine.options import EngineOptions
from spectrie.llm import LLM
from spectrie.model import Runner
from spectrie.model.drafters import Answers, DraftPlan
from spectrie.model.launch.drafts.levels.ahead import Ahead
from spectrie.model.launch.drafts.memory import BEAMS
from tests.model.drafters.asked import Asked, make_levels_cheap
from tests.model.drafters.kinds import write_drafter, write_model

pytestmark = pytest.mark.usefixtures("own_cache")

PROMPTS = [[*range(20, 80)], [5, 6, 7], [9], [*range(20, 90)], [*range(20, 72), *range(100, 140)]]
"""Three of them begin alike, so that pages are shared."""
SCARCE: dict[str, Any] = {"num_pages": 13, "chunk_tokens": 16, "max_running": 8}
"""Pages for the longest request alone."""
NEW_TOKENS = 50


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("model") / "tiny")


@pytest.fixture
def on_gpu() -> Iterator[None]:
    with simulated_gpu(), small_start((1, 8, 64)):
        yield


def answers(
    model: Path,
    drafter: Path | Sequence[Path] | None,
    temperature: float,
    *,
    mode: Literal["auto", "eagle2", "tiers"] = "eagle2",
    **options: Any,
) -> tuple[list[list[int]], int, int]:
    """Token ids of all prompts at once and of some again; drafts of the drafter that were accepted; preemptions."""
    drafters = [drafter] if isinstance(drafter, Path) else drafter or ()
    named = [str(one) for one in drafters] or "off"
    with LLM(
        model,
        dtype="float32",
        threads=1,
        drafter=named,
        # Asks the drafter alone, whatever it costs.
        speculation="off" if drafter is None else mode,
        max_context=192,
        memory_bytes=0,
        bigrams="off",
        drafting_cost_ms=0.0,
        **({"num_pages": 128} | options),
    ) as llm:
        given = [
            *llm.generate(
                prompt_token_ids=PROMPTS,
                max_tokens=NEW_TOKENS,
                temperature=temperature,
                seed=4,
                ignore_eos=True,
            ),
            *llm.generate(
                prompt_token_ids=PROMPTS[3:],
                max_tokens=NEW_TOKENS,
                temperature=temperature,
                seed=5,
                ignore_eos=True,
            ),
        ]
        preemptions = llm.load().preemptions
    drafted = sum(one.speculation.accepted_tokens for one in given)
    return [list(one.token_ids) for one in given], drafted, preemptions


def keep_no_room(patch: pytest.MonkeyPatch) -> None:
    """With room for what they will grow by, requests would never lose their pages."""
    options = partial(EngineOptions, lookahead_tokens=0)
    patch.setattr("spectrie.llm.settings.EngineOptions", options)


# In float32 the order of addition moves no draw of these answers; with fewer bits it might.
@pytest.mark.parametrize(
    ("kind", "temperature"),
    [
        ("eagle3", 0.8),
        ("mtp", 0.8),
        pytest.param("dflash", 0.8, marks=pytest.mark.deep),
        ("dflash2", 0.8),
        pytest.param("peagle", 0.8, marks=pytest.mark.deep),
        pytest.param("eagle2", 0.0, marks=pytest.mark.deep),
        pytest.param("model", 0.0, marks=pytest.mark.deep),
        pytest.param("itself", 0.0, marks=pytest.mark.deep),
        ("itself", 0.8),
    ],
)
@pytest.mark.usefixtures("on_gpu")
def test_answers_are_those_of_plain_decoding(
    kind: str, temperature: float, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, _, _ = answers(model, None, temperature)
    make_levels_cheap(monkeypatch)
    asked = Asked(monkeypatch)
    drafter = write_drafter(kind, model, tmp_path / "drafter")
    found, drafted, _ = answers(model, drafter, temperature)
    assert found == plain
    assert asked.guesses
    assert asked.most_levels > 1
    if kind == "itself":
        right, of = asked.right([[*one, *two] for one, two in zip(PROMPTS, found, strict=False)])
        # A model is right of itself; drawn tokens need not be the likeliest.
        assert drafted > 20
        assert temperature or right > 0.95 * of > 0


@pytest.mark.parametrize("kind", ["eagle3", pytest.param("model", marks=pytest.mark.deep)])
@pytest.mark.usefixtures("on_gpu")
def test_answers_are_those_of_plain_decoding_where_pages_run_out(
    kind: str, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_no_room(monkeypatch)
    plain, _, _ = answers(model, None, 0.8)
    make_levels_cheap(monkeypatch)
    asked = Asked(monkeypatch)
    drafter = write_drafter(kind, model, tmp_path / "drafter")
    found, _, preemptions = answers(model, drafter, 0.8, **SCARCE)
    assert found == plain
    assert preemptions > 0
    assert asked.guesses


@pytest.mark.parametrize("scarce", [False, True])
@pytest.mark.usefixtures("on_gpu")
def test_answers_beside_several_drafters_are_those_of_plain_decoding(
    scarce: bool, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_no_room(monkeypatch)
    plain, _, _ = answers(model, None, 0.8)
    make_levels_cheap(monkeypatch)
    Asked(monkeypatch)
    numbers: list[int] = []
    draft = Runner.draft

    def noting(runner: Runner, plan: DraftPlan) -> Answers:
        numbers.append(plan.drafter)
        return draft(runner, plan)

    monkeypatch.setattr(Runner, "draft", noting)
    drafters = [write_drafter(kind, model, tmp_path / kind) for kind in ("eagle3", "mtp", "itself")]
    options = SCARCE if scarce else {}
    found, drafted, preemptions = answers(model, drafters, 0.8, mode="auto", **options)
    assert found == plain
    assert len(set(numbers)) > 1
    assert drafted > 0
    assert (preemptions > 0) == scarce


@pytest.mark.parametrize(
    ("kind", "temperature", "mode"),
    [
        ("eagle3", 0.0, "tiers"),
        ("eagle3", 0.8, "eagle2"),
        pytest.param("mtp", 0.0, "eagle2", marks=pytest.mark.deep),
    ],
)
@pytest.mark.usefixtures("on_gpu")
def test_levels_behind_steps_change_no_answer(
    kind: str,
    temperature: float,
    mode: Literal["eagle2", "tiers"],
    model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make_levels_cheap(monkeypatch)
    asked = Asked(monkeypatch)
    known: dict[int, list[bool]] = defaultdict(list)
    answer = Ahead.answers

    def noting(ahead: Ahead, plan: DraftPlan, moves: Any) -> object:
        found = answer(ahead, plan, moves)
        known[plan.level].append(found is not None)
        return found

    monkeypatch.setattr(Ahead, "answers", noting)
    drafter = write_drafter(kind, model, tmp_path / "drafter")
    # As many of each answer as there are beams.
    few = partial(EngineOptions, head_top_k=BEAMS)
    monkeypatch.setattr("spectrie.llm.settings.EngineOptions", few)
    with_them = answers(model, drafter, temperature, mode=mode)
    assert asked.most_levels > 1
    # All but those before which none was asked, or which followed a step of other requests.
    assert sum(known[1]) > 0.8 * len(known[1])
    assert sum(known[2]) > 0
    assert not any(map(any, (of for level, of in known.items() if level > 2)))
    monkeypatch.setattr("spectrie.model.launch.drafts.levels.demand._LEAST_SHARE", 0)
    known.clear()
    assert answers(model, drafter, temperature, mode=mode) == with_them
    assert known[1] and known[2] and not any(map(any, known.values()))
