"""Answers from candidates that were weighed again: their order, and rows without an answer."""

from __future__ import annotations

import numpy as np

from spectrie.model.launch.drafts.naming.candidates import Weighed

NAN, INFINITY = float("nan"), float("inf")


def weighed(ids: list[list[int]], logits: list[list[float]]) -> Weighed:
    return Weighed(np.array(ids, np.int32), np.array(logits, np.float32))


def test_the_likeliest_come_first_and_the_lower_token_of_equals() -> None:
    found = weighed([[9, 4, 7, -1]], [[1.0, 1.0, 3.0, 8.0]])
    scores = found.scores(np.array([2.0], np.float32), np.array([0], np.int32))
    answers = found.answers(scores)
    assert answers.ids[0].tolist() == [7, 4, 9, -1]
    total = 1 + 2 * np.exp(-2.0)
    expected = [1 / total, np.exp(-2.0) / total, np.exp(-2.0) / total, 0]
    np.testing.assert_allclose(answers.probabilities[0], expected, rtol=1e-6)
    np.testing.assert_allclose(answers.scored, -1 - np.log(total), rtol=1e-6)


def test_eight_are_answered_and_what_else_counts_makes_each_less_likely() -> None:
    logits = np.linspace(3, 1, 64)
    found = weighed([list(range(64))], [logits.tolist()])
    alone = found.answers(found.scores(np.zeros(0, np.float32), np.zeros(0, np.int32)))
    assert alone.ids.tolist() == [list(range(8))]
    found.total += 10.0
    beside = found.answers(found.scores(np.zeros(0, np.float32), np.zeros(0, np.int32)))
    assert (beside.probabilities < alone.probabilities).all()
    np.testing.assert_allclose(
        beside.probabilities[0], np.exp(logits[:8] - 3) / (np.exp(logits - 3).sum() + 10), rtol=1e-5
    )


def test_rows_without_a_greatest_logit_have_no_answer() -> None:
    found = weighed([[3, 4], [-1, -1], [3, 4]], [[NAN, 1.0], [5.0, 5.0], [INFINITY, 0.0]])
    assert found.is_answered.tolist() == [False, False, False]
    answers = found.answers(found.scores(np.zeros(3, np.float32), np.arange(3, dtype=np.int32)))
    assert (answers.ids == -1).all() and (answers.probabilities == 0).all()
    assert (answers.scored == -np.inf).all()
