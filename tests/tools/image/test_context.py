"""What a builder is sent, by the rules that Docker has for `.dockerignore`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.image.context import Context
from tools.image.root import Failed


@pytest.mark.parametrize(
    ("rules", "name", "is_sent"),
    [
        ("", "a.txt", True),
        ("*", "deep/a.txt", False),
        ("*\n!dist/*.whl", "dist/a.whl", True),
        # A star takes no slash, so that a folder below is not meant.
        ("*\n!dist/*.whl", "dist/old/a.whl", False),
        ("*.txt", "deep/a.txt", True),
        ("**/*.txt", "very/deep/a.txt", False),
        ("**/*.txt", "a.txt", False),
        ("very/**", "very/deep/a.txt", False),
        ("very/**/a.txt", "very/a.txt", False),
        ("?.txt", "a.txt", False),
        ("?.txt", "ab.txt", True),
        ("a.txt", "axtxt", True),
        ("/deep/", "deep/a.txt", False),
        ("deep\n!deep/a.txt\n*.txt", "deep/a.txt", True),
        ("\n# a.txt\n", "a.txt", True),
    ],
)
def test_the_last_rule_that_fits_says_whether_a_file_is_sent(
    tmp_path: Path, rules: str, name: str, is_sent: bool
) -> None:
    (tmp_path / ".dockerignore").write_text(rules)
    assert Context(tmp_path).is_sent(tmp_path / name) is is_sent


def test_a_sign_that_is_not_known_is_refused(tmp_path: Path) -> None:
    (tmp_path / ".dockerignore").write_text("[ab].txt")
    with pytest.raises(Failed, match="not known"):
        Context(tmp_path)
