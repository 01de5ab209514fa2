"""What heads are trained on: prompts, files of samples, and what must stay unseen."""

from __future__ import annotations

import json
import lzma
from collections.abc import Sequence
from pathlib import Path

import pytest

from spectrie._core import Tokenizer
from spectrie.errors import ConfigError
from spectrie.training.texts.code_prompts import function_chats
from spectrie.training.texts.files import read_data
from spectrie.training.texts.overlap import Unseen, read_unseen
from spectrie.training.texts.prompts import varied_chats
from spectrie.training.texts.samples import Sample, SampleFile
from tests.tiny_model import write_tiny_model

SAMPLES = [Sample([1, 2, 3], [(1, 3)], "a"), Sample([4, 5], [(1, 2)], "b")]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return Tokenizer.from_folder(write_tiny_model(tmp_path_factory.mktemp("model")))


def test_prompts_differ_and_are_the_same_again() -> None:
    chats = varied_chats(3000, 1)
    assert chats == varied_chats(3000, 1)
    assert chats[:100] != varied_chats(100, 2)
    assert len({chat.messages[-1]["content"] for chat in chats}) == 3000
    assert not any("{" in message["content"] for chat in chats for message in chat.messages)
    assert 400 < sum(bool(chat.follow_ups) for chat in chats) < 800


def test_functions_become_chats_and_what_does_not_parse_is_left_out() -> None:
    source = 'def add(a, b):\n    """Adds."""\n    total = a + b\n    return total\n\n\nx = 1\n'
    chats = list(function_chats([source, "def broken(:", source], seed=3))
    assert len(chats) == 2
    for chat in chats:
        assert "def add(a, b):" in chat.messages[0]["content"]


def test_a_group_that_was_cut_off_is_written_again(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    file = SampleFile(path)
    file.append(SAMPLES)
    whole = path.read_bytes()
    file.append(SAMPLES[:1])
    for size in range(len(whole), path.stat().st_size):
        path.write_bytes(path.read_bytes()[:size])
        again = SampleFile(path)
        assert again.num_groups == 1
        assert list(again) == SAMPLES
        again.append(SAMPLES[:1])
        assert list(SampleFile(path)) == [*SAMPLES, SAMPLES[0]]


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text('{"hello": 1}\n')
    with pytest.raises(ConfigError, match="holds no samples"):
        SampleFile(tmp_path / "x.jsonl")


def sample(ids: Sequence[int]) -> Sample:
    return Sample(list(ids), [(1, len(ids))], "x")


def test_samples_that_share_thirteen_tokens_are_dropped() -> None:
    unseen = Unseen([range(100, 130)])
    kept, dropped = unseen.split(
        [sample([1, *range(105, 117), 2]), sample([1, *range(105, 118), 2]), sample(range(40))]
    )
    assert [len(one.token_ids) for one in kept] == [14, 40]
    assert [len(one.token_ids) for one in dropped] == [15]


def test_what_every_chat_holds_may_be_shared() -> None:
    template = [*range(50, 70), 9]
    unseen = Unseen([[*template, *range(100, 115)]], separators=[9], common=[template])
    assert not unseen.shares(sample([*template, *range(200, 230)]))
    # A run that begins in the template and ends in the text is the template's.
    assert not unseen.shares(sample([*template, 100, 101, 102]))
    assert unseen.shares(sample([*template, *range(100, 113)]))


def test_unseen_text_is_read_from_traces_and_plain_files(tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl.xz"
    lines = [{"prompt_ids": [1, 2], "output_ids": [3]}, [1, 2, 3]]
    trace.write_bytes(lzma.compress("\n".join(map(json.dumps, lines)).encode()))
    assert [list(text) for text in read_unseen(trace, lambda text: [len(text)])] == [[1, 2, 3]]
    prompts = tmp_path / "prompts.json"
    prompts.write_text(json.dumps({"a": ["four", {"b": "sixsix"}]}))
    assert [list(text) for text in read_unseen(prompts, lambda text: [len(text)])] == [[4], [6]]
    (tmp_path / "notes.txt").write_text("twelve bytes")
    assert list(read_unseen(tmp_path / "notes.txt", lambda text: [len(text)])) == [[12]]
    trace.write_bytes(b"no trace")
    with pytest.raises(ConfigError, match=r"cannot read .*trace\.jsonl\.xz"):
        list(read_unseen(trace, lambda text: []))


def test_data_files_become_samples_and_chats(tmp_path: Path, tokenizer: Tokenizer) -> None:
    path = tmp_path / "data.jsonl"
    turns = [
        {"role": "user", "content": "a b"},
        {"role": "assistant", "content": "is it"},
        {"role": "user", "content": "c"},
        {"role": "assistant", "content": "they are"},
    ]
    entries = [
        {"messages": turns},
        {"messages": turns[:3]},
        {"prompt": "one", "answer": " two"},
        {"prompt": "what"},
        {"prompt_ids": [5, 6], "output_ids": [7, 8, 9]},
    ]
    path.write_text("\n".join(map(json.dumps, entries)))
    text = tmp_path / "text.py"
    text.write_text("def f(x): return x\n" * 20)
    data = read_data([path, text], tokenizer, max_tokens=48)
    chat, pair, ids, *pieces = data.samples
    answers = [tokenizer.decode(chat.token_ids[start:end]) for start, end in chat.answers]
    assert [answer.strip() for answer in answers] == ["is it", "they are"]
    ((start, end),) = pair.answers
    assert tokenizer.decode(pair.token_ids[start:end]) == " two"
    assert ids == Sample([5, 6, 7, 8, 9], [(2, 5)], "data.jsonl")
    assert [len(one.messages) for one in data.chats] == [3, 1]
    assert all(len(piece.token_ids) <= 48 for piece in pieces)
    whole = [token for piece in pieces for token in piece.token_ids]
    assert whole == tokenizer.encode(text.read_text())
    assert pieces[0].answers == [(6, 48)]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "is not JSON"),
        ("[1]", "holds a list"),
        ('{"question": "x"}', "has no messages, prompt or prompt_ids; it has: question"),
        ('{"messages": []}', "expected a list of messages"),
        ('{"messages": [{"role": "tool", "content": "x"}]}', "expected a role of system"),
        ('{"prompt_ids": [1, -2]}', "expected a list of token ids"),
    ],
)
def test_a_wrong_line_is_named(
    tmp_path: Path, tokenizer: Tokenizer, line: str, message: str
) -> None:
    path = tmp_path / "data.jsonl"
    path.write_text('{"prompt": "fine"}\n' + line)
    with pytest.raises(ConfigError, match=message) as error:
        read_data([path], tokenizer, max_tokens=48)
    assert "data.jsonl:2" in str(error.value)
