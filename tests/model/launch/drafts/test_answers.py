"""Drafters on a GPU answer what they answer on a CPU, and what plain torch says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.gpu.simulated import simulated_gpu, small_start
from spectrie.errors import ConfigError, ModelError
from spectrie.model import Runner, load_runner
from spectrie.model.drafters import Answers, LevelPlan
from spectrie.model.launch.drafts.entries import OwnAttention
from spectrie.model.launch.drafts.levels.levels import Levels
from spectrie.model.launch.drafts.operators import DraftOperators
from spectrie.model.plan import StepPlan
from spectrie.model.step.wanted import Wanted
from tests.model.drafters import test_eagle3 as eagle3
from tests.model.drafters.asked import make_levels_cheap
from tests.model.drafters.dflash import DFLASH, DFLASH2, block_tensors
from tests.model.drafters.fused import EAGLE2, fused_tensors, joined_answers
from tests.model.drafters.heads import TAPS, VOCABULARY, head_tensors, write_head
from tests.model.drafters.models import with_tokenizer, write_smaller
from tests.model.drafters.session import Request, draft_path, feed
from tests.model.launch.drafts.scenes import (
    GUESSES,
    KINDS,
    SCORED,
    TOKENS,
    accepted,
    played,
    tree,
    written,
)

pytestmark = pytest.mark.usefixtures("own_cache")


@contextmanager
def gpu() -> Iterator[None]:
    """A GPU of few recorded sizes, so that some levels and steps of each test have none."""
    with simulated_gpu(), small_start((1, 8, 64)):
        yield


@pytest.fixture
def on_gpu() -> Iterator[None]:
    with gpu():
        yield


@pytest.fixture(autouse=True)
def _cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    make_levels_cheap(monkeypatch)


def load(target: Path, head: Path | str, **options: Any) -> Runner:
    given: dict[str, Any] = {"dtype": "float32", "num_pages": 64, "threads": 1} | options
    return load_runner(target, drafter=head, **given)


def assert_near(found: Sequence[Answers], expected: Sequence[Answers]) -> None:
    assert len(found) == len(expected) > 0
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one.probabilities, other.probabilities, rtol=1e-3, atol=1e-5)
        np.testing.assert_allclose(one.scored, other.scored, rtol=1e-3, atol=1e-3)
        # Where two tokens are about as likely, either may come first.
        gaps = -np.diff(other.probabilities, axis=1, append=0)
        clear = (gaps > 1e-4) & np.roll(gaps > 1e-4, 1, axis=1)
        clear[:, 0] = gaps[:, 0] > 1e-4
        assert np.array_equal(one.ids[clear], other.ids[clear])
        assert clear.any() or not len(one.ids)


@pytest.mark.parametrize(
    ("kind", "arithmetic"),
    [
        *((kind, "exact") for kind in KINDS),
        *((kind, "fast") for kind in ("eagle3", "eagle3_low_rank", "eagle2", "dflash2", "peagle")),
    ],
)
def test_answers_are_those_of_a_cpu(kind: str, arithmetic: str, tiny: Path, tmp_path: Path) -> None:
    target, head = written(kind, tiny, tmp_path)
    expected = played(load(target, head))
    with gpu():
        runner = load(target, head, gpu_arithmetic=arithmetic)
        assert_near(played(runner), expected)


@pytest.mark.parametrize("arithmetic", ["exact", "fast"])
@pytest.mark.parametrize("kind", ["eagle3_low_rank", "eagle2_deep", "dflash2", "peagle_window"])
def test_answers_in_half_precision_are_near_those_of_a_cpu(
    kind: str, arithmetic: str, tiny: Path, tmp_path: Path
) -> None:
    target, head = written(kind, tiny, tmp_path)
    expected = played(load(target, head, dtype="bfloat16"))
    with gpu():
        found = played(load(target, head, dtype="bfloat16", gpu_arithmetic=arithmetic))
    # Of single paths, whose levels differ.
    one, other = (
        np.concatenate([np.log(answer.probabilities) for answer in every[:16]])
        for every in (found, expected)
    )
    near, far = (np.median(np.abs(one - against)) for against in (other, np.roll(other, 1, axis=0)))
    assert near < 0.2 * far


@pytest.mark.parametrize("kind", ["eagle3", "dflash2", "peagle"])
def test_levels_that_are_not_recorded_give_the_same(
    kind: str, tiny: Path, tmp_path: Path, on_gpu: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, head = written(kind, tiny, tmp_path)
    expected = played(load(target, head))
    monkeypatch.setattr(Levels, "record", lambda _: None)
    assert_near(played(load(target, head)), expected)


@pytest.mark.parametrize(
    ("kind", "suits"),
    [("eagle3_deep", False), ("eagle3_deep_window", False), ("eagle2_deep", True)],
)
def test_layers_of_the_models_heads_take_its_attention_and_others_their_own(
    kind: str, suits: bool, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, head = written(kind, tiny, tmp_path)
    expected = played(load(target, head))
    own: Any = []
    sections = OwnAttention.sections
    monkeypatch.setattr(OwnAttention, "sections", lambda *given: own.append(0) or sections(*given))
    # Prompts have recorded steps too.
    with simulated_gpu(), small_start((1, 8, 128)):
        assert_near(played(load(target, head)), expected)
        assert bool(own) is not suits
        monkeypatch.setattr(DraftOperators, "suits", lambda *_: not suits)
        if suits:
            assert_near(played(load(target, head)), expected)
            assert own
        else:
            with pytest.raises((ModelError, KeyError), match=r"heads are not 3 times|^7$"):
                load(target, head)


def test_eagle3_answers_what_plain_torch_says(tiny: Path, tmp_path: Path) -> None:
    tensors = head_tensors()
    right = eagle3.expected(tiny, tensors, "float32", TAPS)
    off = eagle3.expected(tiny, tensors, "float32", [(layer + 1) % 3 for layer in TAPS])
    with gpu():
        found = eagle3.answered(load(tiny, write_head(tmp_path, tensors)), 9)
    assert eagle3.distance(found, right) < 1e-5
    assert eagle3.distance(found, off) > 1e-2


def test_eagle2_answers_what_plain_torch_says(tiny: Path, tmp_path: Path) -> None:
    tensors = fused_tensors()
    right = joined_answers(tiny, tensors, "float32", eagle3.TOKENS, eagle3.GUESSES)
    raw = joined_answers(tiny, tensors, "float32", eagle3.TOKENS, eagle3.GUESSES, raw_feature=True)
    with gpu():
        found = eagle3.answered(load(tiny, write_head(tmp_path, tensors, **EAGLE2)), 9)
    assert eagle3.distance(found, right) < 1e-5
    assert eagle3.distance(found, raw) > 1e-3


@pytest.mark.parametrize("kind", ["eagle3", "mtp"])
@pytest.mark.usefixtures("on_gpu")
def test_the_device_brings_entries_of_accepted_rows_to_their_places(
    kind: str, tiny: Path, tmp_path: Path
) -> None:
    target, head = written(kind, tiny, tmp_path)
    runner = load(target, head)
    ids = list(TOKENS[:31])
    for _ in range(2):
        plan = StepPlan.single(ids, kv_len=0, pages=range(3), sample_rows=[len(ids) - 1])
        ids.append(int(runner.forward(plan).argmax()))
    cold = Request(runner, range(10, 18), seat=3)
    feed(cold, ids, 64)
    expected = draft_path(cold, GUESSES, SCORED)
    request = accepted(runner, ids)
    # Guesses in between, which must leave nothing.
    draft_path(request, [1, 2])
    result = runner.launch(tree(request, ids), Wanted.LIKELIEST).wait()
    assert result.compacted
    request.kv_len, request.text = 33, ids
    request.moves = [(2, request.pages[1]), (4, request.store)]
    assert_near(draft_path(request, GUESSES, SCORED), expected)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rows": [(200, 20, 0, -1)]}, "row_token"),
        ({"rows": [(1, 21, 0, -1)]}, r"row_position\[0\] is 21, expected 20"),
        ({"rows": [(1, 20, 1, -1)]}, "row_request"),
        ({"rows": [(1, 20, 0, 0)]}, r"row_parent\[0\] is 0, expected -1 on the first level"),
        ({"requests": [(20, 10**6, [40, 41])]}, "request_feature"),
        ({"requests": [(0, 64, [40, 41])]}, r"request_kv_len\[0\] is 0, expected 1"),
        ({"requests": [(20, 64, [40])]}, "expected pages for 20 tokens"),
        ({"requests": [(20, 64, [40, 64])]}, "page_ids"),
        ({"slots": [(0, 1024)]}, r"kv_move_dst\[0\] is 1024"),
        ({"moves": [(20, 64)]}, r"feature_moves\[0\] is 20, expected 0\.\.20"),
        ({"copies": [(0, 10**6)]}, "feature_copies"),
        ({"scored": [[200]]}, "scored_token"),
        ({"fills": [(0, [3])]}, "fill_token of a drafter that reads features"),
        ({"rows": [(1, 20, 0, -1)] * 513}, "draft rows of a step has 513 elements, expected 512"),
        ({"level": 2}, r"row_parent\[0\] is -1, expected 0\.\.0"),
        ({"row_index": 1}, r"row_index\[0\] is 1, expected 0"),
    ],
)
@pytest.mark.usefixtures("on_gpu")
def test_levels_that_contradict_themselves_are_refused(
    tiny: Path, tmp_path: Path, changes: dict[str, list[object]], message: str
) -> None:
    runner = load(*written("eagle3", tiny, tmp_path))
    request = Request(runner, range(40, 60))
    feed(request, TOKENS[:20], 20)
    level: dict[str, object] = {
        "requests": [request.asked()],
        "rows": [(1, 20, 0, -1)],
        "moves": request.moves,
    }
    with pytest.raises(ValueError, match=message):
        runner.draft(LevelPlan.of(**(level | changes)))  # type: ignore[arg-type]
    # Nothing was changed: the same level without the mistake is answered.
    assert (runner.draft(LevelPlan.of(**level)).ids >= 0).all()  # type: ignore[arg-type]


@pytest.mark.usefixtures("on_gpu")
def test_a_forward_ends_the_drafts_of_a_step(tiny: Path, tmp_path: Path) -> None:
    runner = load(*written("eagle3", tiny, tmp_path))
    request = Request(runner, range(8))
    feed(request, TOKENS[:20], 20)
    draft_path(request, GUESSES[:1])
    runner.step(request.chunk(TOKENS[20:21]))
    late = LevelPlan.of([request.asked()], [(1, 21, 0, 0)], level=2, row_index=1)
    with pytest.raises(ValueError, match=r"row_index\[0\] is 1, expected 0"):
        runner.draft(late)


@pytest.mark.usefixtures("on_gpu")
def test_forms_that_run_on_a_cpu_alone_are_refused_by_name(tiny: Path, tmp_path: Path) -> None:
    blocks, selects = block_tensors(), block_tensors(selected=VOCABULARY)
    ahead = DFLASH | {"layer_types": ["sliding_attention"] * 2, "is_causal": False}
    many = DFLASH2 | {"dflash_config": DFLASH2["dflash_config"] | {"selector_top_k": 65}}
    for name, tensors, changes, message in (
        ("ahead", blocks, ahead, "a sliding window in layers that look ahead runs on a CPU alone"),
        (
            "many",
            selects,
            many,
            "a selector of 65 candidates runs on a CPU alone, so far: .* to 64",
        ),
    ):
        head = write_head(tmp_path / name, tensors, **changes)
        with pytest.raises(ModelError, match=message):
            load(tiny, head)
        load(tiny, head, device="cpu")


@pytest.mark.usefixtures("on_gpu")
def test_a_model_of_experts_drafts_on_a_cpu_alone(tiny: Path, tmp_path: Path) -> None:
    target, drafter = with_tokenizer(tiny, tmp_path / "target"), tmp_path / "experts"
    with pytest.raises(ModelError, match="have a mixture of experts runs on a CPU alone"):
        load(target, write_smaller(drafter, "qwen3_moe"))
    load(target, drafter, device="cpu")


@pytest.mark.usefixtures("on_gpu")
def test_a_gpu_without_the_compiler_of_kernels_has_no_drafter(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, head = written("eagle3", tiny, tmp_path)
    monkeypatch.setattr("spectrie.model.gpu.compiler", lambda: None)
    with pytest.raises(ConfigError, match="runs on a GPU without the compiler of its kernels"):
        load(target, head)


@pytest.mark.usefixtures("on_gpu")
def test_a_drafter_changes_no_logit(tiny: Path, tmp_path: Path) -> None:
    runner = load(*written("eagle3", tiny, tmp_path))
    plain = load(tiny, "off")
    for plan in (
        StepPlan.single(TOKENS[:200], kv_len=0, pages=range(20)),
        StepPlan.single(TOKENS[:5], kv_len=200, pages=range(20), parents=[-1, 0, 0, 1, 1]),
    ):
        assert np.array_equal(runner.forward(plan).numpy(), plain.forward(plan).numpy())


@pytest.mark.usefixtures("on_gpu")
def test_a_runner_goes_on_without_a_drafter_that_was_dropped(tiny: Path, tmp_path: Path) -> None:
    runner = load(*written("eagle3", tiny, tmp_path))
    plan = StepPlan.single(TOKENS[:20], kv_len=0, pages=range(2))
    before = runner.forward(plan).numpy()
    runner.drop_drafter(0)
    assert runner.drafter is None
    assert np.array_equal(runner.forward(plan).numpy(), before)
    assert runner.launch(plan, Wanted.LIKELIEST).wait().tokens is not None
    with pytest.raises(ValueError, match="no drafter"):
        runner.draft(LevelPlan.of([(20, 64, [0, 1])], [(1, 20, 0, -1)]))


@pytest.mark.usefixtures("on_gpu")
def test_a_drafter_on_a_gpu_says_what_it_is_and_costs(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    monkeypatch.setenv("SPECTRIE_CACHE", str(tmp_path / "cache"))
    target, head = written("eagle3", tiny, tmp_path)
    runner, plain = load(target, head, num_pages=None), load(target, "off", num_pages=None)
    info = runner.drafter
    assert info is not None
    assert (info.kind, info.max_rows, info.max_requests) == ("eagle3", 512, 1024)
    assert info.num_bytes > 4 * sum(t.numel() for t in head_tensors().values() if t.dim() > 1)
    costs = info.costs
    assert costs.rows == [1, 2, 4, 8, 16, 32, 64]
    assert len(costs.first_ms) == len(costs.later_ms) == 7
    assert costs.upkeep_ms > 0
    # Keys and features take room that pages had.
    assert runner.num_pages < plain.num_pages
