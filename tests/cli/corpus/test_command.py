"""`spectrie corpus`: what each kind of file becomes, and that nothing is left half done."""

from __future__ import annotations

import array
import json
from pathlib import Path

import pytest

from spectrie._core import CorpusBuilder, Tokenizer, corpus_info, tokenizer_fingerprint
from spectrie.cli import main
from spectrie.cli.corpus import command
from spectrie.cli.corpus import documents as documents_module
from spectrie.cli.corpus.documents import DocumentReader
from spectrie.model.files.corpora import corpora_folder, corpus_file
from spectrie.printing.progress import Progress
from tests.tiny_model import write_tiny_model


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache whose only model is a tiny one."""
    monkeypatch.setenv("SPECTRIE_CACHE", str(tmp_path / "cache"))
    write_tiny_model(tmp_path / "cache" / "models" / "tiny")
    return tmp_path / "cache"


def build(*arguments: object) -> int:
    return main(["corpus", "build", *map(str, arguments)])


def num_tokens(cache: Path, *texts: str) -> int:
    tokenizer = Tokenizer.from_folder(cache / "models" / "tiny")
    return sum(len(tokenizer.encode(text)) for text in texts)


def test_text_lines_and_ids_become_documents(
    cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = tmp_path / "a.py"
    text.write_text("def f(self):\n    return self\n")
    lines = tmp_path / "b.jsonl"
    records = [{"text": "for self in"}, {"ids": [5, 6, 7]}, {"prompt": "if", "output": " print"}]
    lines.write_text("\n".join(json.dumps(record) for record in records))
    ids = tmp_path / "c.u32"
    ids.write_bytes(array.array("I", [8, 9, 2**32 - 1, 10, 11]).tobytes())
    assert build(text, lines, ids, "-o", "mixed") == 0
    captured = capsys.readouterr()
    assert captured.out == f"{corpus_file('mixed')}\n"
    expected = num_tokens(cache, text.read_text(), "for self in", "if", " print") + 3 + 2 + 2
    corpus = corpus_info(corpus_file("mixed"))
    assert (corpus.num_documents, corpus.num_tokens) == (1 + 3 + 2, expected)
    assert corpus.fingerprint == tokenizer_fingerprint(cache / "models" / "tiny")
    assert f"6 documents, {expected} tokens" in captured.err
    assert "bytes/token" in captured.err


def test_ids_are_read_in_parts_that_end_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = tmp_path / "a.u32"
    separator = 2**32 - 1
    documents = [[1, 2, 3, 4, 5, 6, 7], [8, 9], [10, 11, 12]]
    words = [token for document in documents for token in [*document, separator]]
    ids.write_bytes(array.array("I", words[:-1]).tobytes())
    whole = build(ids, "-o", "whole")
    for part_bytes in (4, 8, 12, 36):
        monkeypatch.setattr(documents_module, "_READ_BYTES", part_bytes)
        assert build(ids, "-o", f"parts-{part_bytes}") == whole == 0
        corpus = corpus_info(corpus_file(f"parts-{part_bytes}"))
        assert (corpus.num_documents, corpus.num_tokens) == (3, 12)


def test_indexing_shows_its_progress_and_ends_by_an_interrupt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    builder = CorpusBuilder("a", "", scratch=tmp_path)
    builder.push([1, 2, 3])
    seen: list[tuple[int, int]] = []
    builder.finish(tmp_path / "a.corpus", lambda done, total: seen.append((done, total)))
    assert seen == [(4, 4)]

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Progress, "show", interrupt)
    ids = tmp_path / "b.u32"
    ids.write_bytes(array.array("I", [5, 6, 7]).tobytes())
    monkeypatch.setattr(command, "_read", lambda reader, files, _: _read_all(reader, files))
    assert build(ids, "-o", "name") == 130
    assert not corpus_file("name").exists()
    assert list(corpora_folder().iterdir()) == [], "nor anything else"


def _read_all(reader: DocumentReader, files: list[tuple[Path, bool]]) -> None:
    for path, named in files:
        list(reader.read(path, named=named))
    reader.flush()


def test_a_folder_is_walked_without_what_is_hidden_binary_or_not_included(
    cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tree = tmp_path / "tree"
    (tree / ".git").mkdir(parents=True)
    (tree / "sub").mkdir()
    (tree / "sub" / "a.py").write_text("self and self")
    (tree / "b.md").write_text("not or and")
    (tree / ".git" / "c.py").write_text("hidden hidden")
    (tree / "d.bin").write_bytes(b"\xff\xfe\x00")
    assert build(tree, "-o", "all") == 0
    assert corpus_info(corpus_file("all")).num_documents == 2
    assert "skipped 1 binary files" in capsys.readouterr().err
    assert build(tree, "--include", "*.py", "-o", "python") == 0
    found = corpus_info(corpus_file("python"))
    assert (found.num_documents, found.num_tokens) == (1, num_tokens(cache, "self and self"))


def test_blank_lines_split_documents_on_request(tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("one of them\n\n  \ntwo of them\n\nthree of them\n")
    assert build(text, "--split", "blank-line", "-o", "parts") == 0
    assert corpus_info(corpus_file("parts")).num_documents == 3
    assert build(text, "-o", "whole") == 0
    assert corpus_info(corpus_file("whole")).num_documents == 1


def test_a_long_text_is_tokenized_in_parts_and_stays_one_document(
    cache: Path, tmp_path: Path
) -> None:
    text = tmp_path / "long.txt"
    text.write_text("def f(self): return self\n" * 20_000)
    assert build(text, "-o", "long") == 0
    corpus = corpus_info(corpus_file("long"))
    assert corpus.num_documents == 1
    assert corpus.num_tokens == num_tokens(cache, text.read_text())


def test_an_existing_corpus_is_replaced_only_by_force(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = tmp_path / "a.txt"
    text.write_text("one of them")
    assert build(text, "-o", "name") == 0
    before = corpus_file("name").read_bytes()
    text.write_text("another one of them")
    assert build(text, "-o", "name") == 2
    assert "--force" in capsys.readouterr().err
    assert corpus_file("name").read_bytes() == before
    assert build(text, "-o", "name", "--force") == 0
    assert corpus_file("name").read_bytes() != before


def test_built_corpora_are_listed_and_removed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = tmp_path / "a.txt"
    text.write_text("one of them")
    assert build(text, "-o", "name") == 0
    assert build(text, "-o", tmp_path / "elsewhere.corpus") == 0
    assert (tmp_path / "elsewhere.corpus").is_file()
    corpus_file("broken").write_bytes(b"no corpus")
    capsys.readouterr()
    assert main(["corpus", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["broken", "name"]
    assert "cannot be used" in lines[0] and lines[1].endswith("tiny")
    assert main(["corpus", "rm", "name"]) == 0
    assert not corpus_file("name").exists()
    assert main(["corpus", "rm", "name"]) == 2
    assert "spectrie corpus list" in capsys.readouterr().err


def test_a_built_corpus_of_another_tokenizer_is_refused_by_replay(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = tmp_path / "a.txt"
    text.write_text("one of them")
    assert build(text, "-o", "name") == 0
    other = tmp_path / "other"
    other.mkdir()
    tokenizer = Path(tmp_path / "cache/models/tiny/tokenizer.json").read_text()
    (other / "tokenizer.json").write_text(tokenizer + "\n")
    trace = tmp_path / "trace.jsonl"
    trace.write_text('{"prompt": "one of", "output": " them"}\n')
    arguments = ["replay", "--input", str(trace), "--corpus", "name", "--json"]
    assert main([*arguments, "--model", "tiny"]) == 0
    assert main([*arguments, "--model", str(other)]) == 2
    assert "build it again" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", b'{"text": "a b c"}\n{"txt": 1}\n', 'line 2: expected {"text": ...}'),
        ("a.jsonl", b'{"text": 1}\n', "line 1: text: expected text, got 1"),
        ("a.jsonl", b'{"ids": [1, "x"]}\n', "line 1: ids: expected a list of ids"),
        ("a.jsonl", b'{"ids": [1, 99999]}\n', "token id 99999 is none of tiny"),
        ("a.u32", b"12345", "expected 4 bytes a token id, got 5 bytes"),
        ("a.txt", b"\xff\xff", "is no UTF-8 text"),
        ("a.txt", b"", "no document of two tokens"),
    ],
)
def test_files_that_cannot_be_used_are_named_and_nothing_is_built(
    name: str, content: bytes, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).write_bytes(content)
    assert build(tmp_path / name, "-o", "name") == 2
    assert message in capsys.readouterr().err
    assert not corpora_folder().exists() or not list(corpora_folder().iterdir())


def test_without_one_stored_model_the_answer_says_what_to_do(
    cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.txt").write_text("one of them")
    write_tiny_model(cache / "models" / "second")
    assert build(tmp_path / "a.txt", "-o", "name") == 2
    assert "give --model MODEL, a name or a folder (stored are second, tiny)" in (
        capsys.readouterr().err
    )
    assert build(tmp_path / "nothing", "-o", "name", "--model", "tiny") == 2
    assert "no file or folder" in capsys.readouterr().err


def test_an_interrupted_build_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_reader: DocumentReader) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(DocumentReader, "flush", interrupt)
    (tmp_path / "a.txt").write_text("one of them")
    assert build(tmp_path / "a.txt", "-o", "name") == 130
    assert not corpora_folder().exists()
