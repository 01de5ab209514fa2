"""The recorded answers that are committed are those of the head that ships, along the traces that are committed."""

from __future__ import annotations

import pytest

from bench.draft import trace
from bench.draft.recording.head_file import ANSWERS, ENDING, read_answers
from spectrie.model.drafters.shipped import shipped_heads

SPLITS = ("report", "tune", "choose")


@pytest.mark.parametrize("split", SPLITS)
def test_answers_belong_to_the_head_that_ships_and_to_a_trace(split: str) -> None:
    files = sorted((ANSWERS / split).glob(f"*{ENDING}"))
    assert files
    for path in files:
        source = trace.folder(split) / f"{path.name.removesuffix(ENDING)}.jsonl.xz"
        header, answers = read_answers(path, source)
        requests = trace.read(source)
        assert [len(one) for one in answers] == [len(one.output_ids) for one in requests]
        assert header["drafter"] in shipped_heads()
