"""The Python face of bigrams: rows, files, and drafting from them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from spectrie._core import Bigrams, Engine, EngineError
from tests.engine.requests import request
from tests.engine.test_engine import VOCABULARY, make_engine, run


def counting(vocabulary: int = VOCABULARY) -> Bigrams:
    """Token t is followed by t + 1; the second half is unknown."""
    ids = np.zeros((vocabulary, 8), np.int32)
    probabilities = np.zeros((vocabulary, 8), np.float32)
    ids[:, 0] = (np.arange(vocabulary) + 1) % vocabulary
    probabilities[: vocabulary // 2, 0] = 0.9
    return Bigrams(ids, probabilities)


def first_drafts(engine: Engine, handle: int) -> list[int]:
    """The tokens that the first decoding step of a cold request drafts."""
    engine.submit(request(handle, [30, 3], 4, temperature=0.0))
    prefill = engine.plan(0.0)
    assert prefill is not None
    logits = np.zeros((1, VOCABULARY), np.float32)
    logits[0, 4] = 30.0
    engine.commit_logits(prefill.plan_id, logits.ctypes.data, 1, VOCABULARY, 1.0, 0.0)
    step = engine.plan(0.0)
    assert step is not None
    drafts: list[int] = step.row_token.tolist()[1:]
    engine.fail(step.plan_id, "enough", 0.0)
    return drafts


def test_rows_come_back_as_they_were_given() -> None:
    table = counting()
    assert (len(table), table.num_known) == (VOCABULARY, VOCABULARY // 2)
    ids, probabilities = table.rows()
    assert ids.dtype == np.int32 and probabilities.dtype == np.float32
    assert ids.shape == probabilities.shape == (VOCABULARY, 8)
    assert ids[3, 0] == 4 and probabilities[3].tolist() == pytest.approx([0.9] + [0] * 7)


@pytest.mark.parametrize(
    ("ids", "probabilities", "message"),
    [
        (np.zeros((3, 7), np.int32), np.zeros((3, 7), np.float32), r"ids are \(3, 7\)"),
        (np.zeros((3, 8), np.int32), np.zeros((2, 8), np.float32), r"probabilities \(2, 8\)"),
        (np.full((3, 8), -1, np.int32), np.zeros((3, 8), np.float32), "ids hold -1"),
        (np.zeros((3, 8), np.int32), np.full((3, 8), 1.5, np.float32), "1.5"),
    ],
)
def test_rows_that_are_none_are_refused(
    ids: np.ndarray, probabilities: np.ndarray, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        Bigrams(ids, probabilities)


def test_a_file_is_its_models_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.bigrams"
    counting().save(path, "abc")
    for ours, theirs in zip(Bigrams.open(path, "abc").rows(), counting().rows(), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    with pytest.raises(ValueError, match="model abc, expected model abd"):
        Bigrams.open(path, "abd")


def test_the_first_step_of_a_cold_request_drafts_from_the_table() -> None:
    engine = make_engine(recycle="off")
    engine.set_bigrams(counting())
    assert first_drafts(engine, 1) == [5, 6]
    engine.set_bigrams(None)
    assert 5 not in first_drafts(engine, 2)


def test_tokens_are_the_same_with_a_table_that_is_wrong() -> None:
    ids = np.full((VOCABULARY, 8), 7, np.int32)
    probabilities = np.zeros((VOCABULARY, 8), np.float32)
    probabilities[:, 0] = 0.99
    outputs = []
    for table in (None, counting(), Bigrams(ids, probabilities)):
        engine = make_engine()
        engine.set_bigrams(table)
        engine.submit(request(1, [5, 6], 20, temperature=0.0))
        outputs.append(run(engine)[0])
    assert outputs[0] == outputs[1] == outputs[2] == {1: list(range(7, 27))}


def test_tables_that_do_not_fit_the_model_are_refused() -> None:
    engine = make_engine()
    with pytest.raises(EngineError, match="bigrams is a table of 49 tokens; allowed: 50"):
        engine.set_bigrams(counting(VOCABULARY - 1))
    ids = np.full((VOCABULARY, 8), VOCABULARY, np.int32)
    with pytest.raises(EngineError, match="a table with token 50; allowed: ids below"):
        engine.set_bigrams(Bigrams(ids, np.full((VOCABULARY, 8), 0.1, np.float32)))
    with pytest.raises(EngineError, match="speculation is off"):
        make_engine(speculation="off").set_bigrams(counting())
