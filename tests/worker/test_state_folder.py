"""The folder of one worker's draft memory: private, and held against others."""

from __future__ import annotations

from pathlib import Path

import pytest

from spectrie.errors import ConfigError
from spectrie.worker.state_folder import claimed


def test_folder_is_made_for_its_owner_alone_and_freed_at_the_end(tmp_path: Path) -> None:
    folder = tmp_path / "state" / "draft" / "0"
    for _ in range(2):
        with claimed(folder):
            assert folder.stat().st_mode & 0o777 == 0o700


def test_second_worker_of_a_folder_is_refused_with_what_to_do(tmp_path: Path) -> None:
    folder = tmp_path / "0"
    with (
        claimed(folder),
        pytest.raises(ConfigError, match=r"another worker uses .*--worker-index"),
        claimed(folder),
    ):
        pass


def test_folder_that_cannot_be_made_names_the_option(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="--state-dir"), claimed(tmp_path / "file" / "0"):
        pass


def test_without_a_folder_nothing_is_held() -> None:
    with claimed(None), claimed(None):
        pass
