"""Tiny random models of every family, and a cache folder of the tests' own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.model.families import FAMILIES, save_family


@pytest.fixture
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keeps measurements out of the user's cache."""
    folder: Path = tmp_path_factory.getbasetemp() / "cache"
    monkeypatch.setenv("SPECTRIE_CACHE", str(folder))
    return folder


@pytest.fixture(scope="session", params=sorted(FAMILIES))
def family(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of one tiny random model."""
    name: str = request.param
    folder: Path = tmp_path_factory.getbasetemp() / "families" / name
    if not folder.exists():
        save_family(name, folder)
    return folder


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a tiny random Llama with grouped heads."""
    folder: Path = tmp_path_factory.getbasetemp() / "families" / "llama"
    if not folder.exists():
        save_family("llama", folder)
    return folder
