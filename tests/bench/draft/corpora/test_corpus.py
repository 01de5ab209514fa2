"""Corpora are rebuilt from pinned packages, and other bytes are refused."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

import pytest

from bench.draft.corpora.corpus import CorpusLock, digest, read_ids, write_ids
from bench.draft.corpora.sources import SETS, Quota, choose
from bench.support.packages import Package, fetch, members


def _wheel(path: Path, files: dict[str, bytes]) -> Package:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return Package("a", path.name, hashlib.sha256(path.read_bytes()).hexdigest())


def test_documents_come_back_with_their_boundaries(tmp_path: Path) -> None:
    documents = [[1, 2, 3], [], [4]]
    write_ids(tmp_path / "a.u32", documents)
    assert read_ids(tmp_path / "a.u32") == documents
    assert digest(documents) != digest([[1, 2, 3], [4]])


def test_cached_package_with_other_bytes_is_removed_and_refused(tmp_path: Path) -> None:
    package = _wheel(tmp_path / "a-1-py3-none-any.whl", {"a.py": b"x = 1\n"})
    assert fetch(package, tmp_path).exists()
    (tmp_path / package.file).write_bytes(b"changed")
    with pytest.raises(ValueError, match="expected " + package.sha256):
        fetch(package, tmp_path)
    assert not (tmp_path / package.file).exists()


def test_a_quota_takes_readable_files_of_its_language_up_to_its_size(tmp_path: Path) -> None:
    text = "name = 'value'\n" * 100
    files = {f"a/{number}.py": f"{number}\n{text}".encode() for number in range(9)}
    files |= {
        "a/minified.js": text.encode(),
        "a/long.py": b"x" * 2000,
        "a/latin.py": text.encode() + b"\xff",
        "a/twice.py": f"3\n{text}".encode(),
    }
    path = tmp_path / "a-1-py3-none-any.whl"
    _wheel(path, files)
    assert len(dict(members(path))) == len(files)
    chosen = choose(Quota("a", (".py",), 5), path)
    assert len(chosen) == 3
    assert {name for name, _ in chosen} <= {f"a/{number}.py" for number in range(9)} | {
        "a/twice.py"
    }
    assert len(choose(Quota("a", (".py",), 100), path)) == 9


def test_no_package_is_in_two_sets_that_are_compared() -> None:
    names = {
        name: {quota.name for quota in quotas}
        for name, quotas in SETS.items()
        if name in ("code", "tune", "corpus")
    }
    assert not names["code"] & names["corpus"]
    assert not names["code"] & names["tune"]
    assert not names["tune"] & names["corpus"]


def test_lock_names_every_set() -> None:
    for name in SETS:
        lock = CorpusLock.load(name)
        assert len(lock.sha256) == 64
        assert all(members for _, members in lock.sources)
