"""Where built corpora lie and how they are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from spectrie.errors import ConfigError
from spectrie.model.files.corpora import built_corpora, corpora_folder, corpus_file, find_corpus


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPECTRIE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_a_corpus_is_found_by_name_and_by_path(tmp_path: Path) -> None:
    assert built_corpora() == []
    corpora_folder().mkdir(parents=True)
    built = corpus_file("code")
    built.write_bytes(b"")
    elsewhere = tmp_path / "other.corpus"
    elsewhere.write_bytes(b"")
    assert built_corpora() == [built]
    assert find_corpus("code") == find_corpus("code.corpus") == built
    assert find_corpus(str(elsewhere)) == elsewhere


def test_an_unknown_corpus_is_answered_with_those_there_are() -> None:
    corpora_folder().mkdir(parents=True)
    corpus_file("code").write_bytes(b"")
    with pytest.raises(ConfigError, match=r"no corpus 'cod'.*built corpora: code.*corpus build"):
        find_corpus("cod")


@pytest.mark.parametrize("name", ["", ".hidden", "a/b", ".."])
def test_a_name_never_leads_out_of_the_folder(name: str) -> None:
    with pytest.raises(ConfigError, match="not a valid corpus name"):
        corpus_file(name)
