"""Cases of a number format that this CPU has not are told from those that it has."""

from __future__ import annotations

from unittest import mock

import pytest

from tests.exactness import runners

NAMED = "tests/exactness/test_tokens.py::test_answers_equal_the_reference[bfloat16-auto-x4]"
OTHERS = [
    "tests/exactness/test_tokens.py::test_answers_equal_the_reference[float32-auto-x4]",
    "tests/model/decoder/test_decoder.py::test_rows[bfloat16]",
]


@pytest.mark.parametrize(
    ("node_ids", "flags", "count"),
    [
        ([NAMED, *OTHERS, NAMED], frozenset(), 2),
        ([NAMED, *OTHERS], frozenset({"avx512_bf16"}), None),
        (OTHERS, frozenset(), None),
    ],
)
def test_cases_that_ran_in_another_format_are_counted(
    node_ids: list[str], flags: frozenset[str], count: int | None
) -> None:
    with mock.patch.object(runners, "bf16_flags", lambda: flags):
        note = runners.converted(node_ids)
    assert (note and note.split(" cases ran as float32")[0]) == (count and f"{count} bfloat16")
