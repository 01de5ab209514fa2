"""Secrets from files: what counts as one, and the error for a file without one."""

from __future__ import annotations

from pathlib import Path

import pytest

from spectrie.cli.flags.secret_file import read_token
from spectrie.errors import ConfigError


def test_secret_is_what_the_file_holds_without_white_space(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(" secret\n")
    assert read_token("--token-file", str(tmp_path / "token")) == "secret"
    assert read_token("--token-file", None) is None


@pytest.mark.parametrize("content", [b"", b" \n", "gehütet".encode(), b"\xff"])
def test_file_without_a_secret_is_refused_by_flag_and_name(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "token"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=f"^--worker-token-file {path}: "):
        read_token("--worker-token-file", str(path))
    with pytest.raises(ConfigError, match=f"^--token-file {path}.gone: "):
        read_token("--token-file", f"{path}.gone")
