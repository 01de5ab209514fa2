"""Files of other projects are read, and what is wrong in them is named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.speculation.reader import Question, read


def write(path: Path, *entries: object) -> Path:
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries), encoding="utf-8")
    return path


def test_lines_of_spec_bench_keep_category_and_turns(tmp_path: Path) -> None:
    file = write(
        tmp_path / "question.jsonl",
        {"question_id": 81, "category": "writing", "turns": ["Write.", "Again."]},
        {"question_id": 82, "category": "math", "turns": ["Add."]},
    )
    assert read(file) == [
        Question("1/81", "writing", ("Write.", "Again.")),
        Question("2/82", "math", ("Add.",)),
    ]


def test_one_line_alone_is_a_question_too(tmp_path: Path) -> None:
    file = write(tmp_path / "one.jsonl", {"question_id": 1, "category": "rag", "turns": ["Why?"]})
    assert [question.category for question in read(file)] == ["rag"]


def test_share_gpt_gives_what_users_say(tmp_path: Path) -> None:
    conversations = [
        {
            "id": "a",
            "conversations": [
                {"from": "human", "value": "Hi"},
                {"from": "gpt", "value": "Hello"},
                {"from": "human", "value": "Bye"},
            ],
        },
        {"id": "b", "conversations": [{"from": "gpt", "value": "alone"}]},
    ]
    file = tmp_path / "share.json"
    file.write_text(json.dumps(conversations), encoding="utf-8")
    assert read(file) == [Question("1/a", "sharegpt", ("Hi", "Bye"))]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"turns": ["a"]}\nnonsense\n', "line 2"),
        ('{"turns": ["a"]}\n{"other": 1}\n', "line 2: neither `turns` nor `conversations`"),
        ("[1]", "entry 1: no object"),
        ('{"turns": [1]}', "a turn is not text"),
        ("[]", "holds no question"),
        ("", "holds no question"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "file"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=words) as caught:
        read(file)
    assert "Spec-Bench" in str(caught.value)
