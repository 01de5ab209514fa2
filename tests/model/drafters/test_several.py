"""Several drafters beside one model: which ones are loaded, their names, and that each answers as if it were alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from bench.gpu.simulated import simulated_gpu, small_start
from spectrie.errors import ConfigError
from spectrie.model import Runner, load_runner
from spectrie.model.drafters import Answers, LevelPlan
from tests.model.drafters.asked import make_levels_cheap
from tests.model.drafters.kinds import write_drafter, write_model
from tests.model.drafters.session import Request, same
from tests.tiny_model import VOCABULARY_SIZE

KINDS = ("eagle3", "model", "eagle2")
TEXT = [3 + (5 * at * at + at) % (VOCABULARY_SIZE - 3) for at in range(70)]
GUESSES = (5, 9, 40)


pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.fixture(autouse=True, params=["cpu", "gpu"])
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """What models are loaded on."""
    if request.param == "cpu":
        yield "cpu"
        return
    make_levels_cheap(monkeypatch)
    with simulated_gpu(), small_start((1, 8, 64)):
        yield "gpu"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("model") / "tiny")


@pytest.fixture(scope="module")
def folders(model: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("drafters")
    return {kind: write_drafter(kind, model, folder / kind) for kind in KINDS}


def load(model: Path, *drafters: str | Path) -> Runner:
    return load_runner(model, num_pages=64, threads=1, dtype="float32", drafter=drafters)


def test_each_is_named_in_order_with_costs_of_its_own(
    model: Path, folders: dict[str, Path]
) -> None:
    runner = load(model, *(folders[kind] for kind in KINDS))
    assert [one.name for one in runner.drafters] == list(KINDS)
    assert [one.needs_features for one in runner.drafters] == [True, False, True]
    assert [bool(one.costs.fill_ms) for one in runner.drafters] == [False, True, False]
    assert all(one.num_bytes > 0 for one in runner.drafters)
    assert len({one.hash for one in runner.drafters}) == 3
    assert runner.drafter == runner.drafters[0]


def test_one_that_is_named_twice_counts_once_and_like_names_are_told_apart(
    model: Path, folders: dict[str, Path], tmp_path: Path
) -> None:
    other = write_drafter("eagle2", model, tmp_path / "eagle3")
    link = tmp_path / "link"
    link.symlink_to(folders["eagle3"])
    runner = load(model, folders["eagle3"], folders["eagle3"], link, other)
    assert [one.name for one in runner.drafters] == ["eagle3", "eagle3#2"]
    assert [one.kind for one in runner.drafters] == ["eagle3", "eagle2"]


def test_auto_beside_a_named_one_finds_none_in_silence(
    model: Path, folders: dict[str, Path]
) -> None:
    runner = load(model, "auto", folders["eagle2"])
    assert [one.name for one in runner.drafters] == ["eagle2"]
    assert runner.why_no_drafter is None
    assert load(model, "auto").why_no_drafter is not None


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["off", "head"], "drafter is 'off' and head: choose 'off', or the others"),
        (["a", "b", "c", "d", "e"], "5 drafters are named: a, b, c, d, e; allowed: up to 4"),
    ],
)
def test_what_cannot_be_together_is_refused(model: Path, names: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load(model, *names)


def test_none_and_off_load_none(model: Path) -> None:
    for names in ([], ["off"], ["off", "off"]):
        runner = load(model, *names)
        assert (runner.drafters, runner.drafter, runner.drafts) == ([], None, False)


def answers(runner: Runner, kinds: Sequence[str]) -> dict[str, list[Answers]]:
    """Answers of each drafter behind a text that begins with a prefix hit and whose last page moves."""
    if runner.native is not None:
        runner.native.poison_drafter(float("nan"))
    first = Request(runner, range(5))
    for tokens in (TEXT[:40], TEXT[40:]):
        runner.step(first.chunk(tokens))
        first.commit(0, len(tokens))
    again = Request(runner, [0, 1, 20, 21, 22], seat=1)
    again.moves = list(first.moves)
    again.hit(2, first)
    again.copies = [*first.copies, *again.copies]
    runner.step(again.chunk(TEXT[32:60]))
    again.commit(0, 28)
    # What is in its last page moves to another, with all that drafters have of it.
    moved = [(21 * 16 + at, 30 * 16 + at) for at in range(16)]
    again.pages[3] = 30
    found: dict[str, list[Answers]] = {}
    for number, kind in enumerate(kinds):
        fills = None if runner.drafters[number].needs_features else [(0, TEXT[:60])]
        found[kind] = []
        for level, token in enumerate(GUESSES):
            is_first = number == 0 and level == 0
            level_plan = LevelPlan.of(
                [again.asked()],
                [(token, 60 + level, 0, level - 1)],
                level=level + 1,
                row_index=level,
                scored=[[7, 8]],
                slots=moved if is_first else (),
                moves=again.moves if is_first else (),
                fills=fills if level == 0 else None,
                drafter=number,
            )
            found[kind].append(runner.draft(level_plan))
    return found


def test_each_answers_as_if_it_were_alone(model: Path, folders: dict[str, Path]) -> None:
    together = answers(load(model, *(folders[kind] for kind in KINDS)), KINDS)
    for kind in KINDS:
        alone = answers(load(model, folders[kind]), [kind])
        assert all(np.isfinite(one.probabilities).all() for one in alone[kind])
        assert same(together[kind], alone[kind]), kind


def test_one_that_is_dropped_leaves_the_others_as_they_were(
    model: Path, folders: dict[str, Path]
) -> None:
    runner = load(model, folders["eagle3"], folders["eagle2"])
    expected = answers(runner, ["eagle3", "eagle2"])
    runner.drop_drafter(0)
    assert [one.name for one in runner.drafters] == ["eagle2"]
    if runner.native is not None:
        assert runner.native.drafter_bytes(0) is None and runner.native.drafts
    with pytest.raises(ValueError, match="no drafter of number 0"):
        answers(runner, ["eagle3"])
    runner.drop_drafter(1)
    assert not runner.drafts
    assert runner.native is None or not runner.native.drafts
    assert len(expected["eagle2"]) == len(GUESSES)
