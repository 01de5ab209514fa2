"""`spectrie keys`: what it prints is what a server reads."""

from __future__ import annotations

import hashlib
import tomllib
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from spectrie.cli import main


def new(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[str, str]:
    """A new key and its entry."""
    assert main(["keys", "new", *arguments]) == 0
    printed = capsys.readouterr()
    return printed.err.split()[-1], printed.out


def entry(text: str) -> dict[str, Any]:
    """The only entry of a file."""
    (only,) = tomllib.loads(text)["keys"]
    return dict(only)


def test_new_key_is_shown_once_and_its_entry_holds_its_digest(
    capsys: pytest.CaptureFixture[str],
) -> None:
    key, text = new(capsys, "acme")
    other, _ = new(capsys, "acme")
    assert key != other
    assert key not in text
    digest = hashlib.sha256(key.encode()).hexdigest()
    assert entry(text) == {"tenant": "acme", "sha256": digest}


def test_every_limit_is_in_the_entry(capsys: pytest.CaptureFixture[str]) -> None:
    limits = ["--max-priority", "-1", "--requests-per-minute", "60"]
    limits += ["--tokens-per-minute", "100000", "--requests-at-once", "8"]
    models = ["--model", "small", "--model", 'l"arge']
    _, text = new(capsys, "acme", "--expires", "2027-01-31T12:00:00+02:00", *models, *limits)
    made = entry(text)
    del made["sha256"]
    assert made == {
        "tenant": "acme",
        "expires": datetime(2027, 1, 31, 10, tzinfo=UTC),
        "models": ["small", 'l"arge'],
        "max_priority": -1,
        "requests_per_minute": 60,
        "tokens_per_minute": 100_000,
        "requests_at_once": 8,
    }


def test_days_are_counted_from_now(capsys: pytest.CaptureFixture[str]) -> None:
    _, text = new(capsys, "acme", "--expires", "90d")
    left = entry(text)["expires"] - datetime.now(UTC)
    assert timedelta(days=89) < left <= timedelta(days=90)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a/b"], "TENANT: allowed"),
        (["a b"], "TENANT: allowed"),
        (["acme", "--expires", "soon"], "--expires: given 'soon'; allowed: days as 90d"),
        (["acme", "--requests-at-once", "0"], "--requests-at-once: given 0; allowed: 1 or more"),
    ],
)
def test_bad_arguments_are_refused(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert main(["keys", "new", *arguments]) == 2
    printed = capsys.readouterr()
    assert message in printed.err
    assert not printed.out


def test_list_shows_tenants_and_limits_and_no_key(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    key, first = new(capsys, "acme", "--expires", "2020-01-31", "--requests-per-minute", "6000")
    _, second = new(capsys, "longer-name", "--model", "small")
    file = tmp_path / "keys.toml"
    file.write_text(first + second)
    assert main(["keys", "list", str(file)]) == 0
    listed = capsys.readouterr().out
    digest = hashlib.sha256(key.encode()).hexdigest()
    lines = listed.splitlines()
    assert lines[0] == (
        f"{digest[:12]}…  acme         expired 2020-01-31 00:00 UTC, requests per minute 6,000"
    )
    assert lines[1].endswith("…  longer-name  never expires, models small")
    assert key not in listed


def test_list_reads_the_older_form_and_repeats_no_key(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "keys"
    file.write_text("sesame team-a\n")
    assert main(["keys", "list", str(file)]) == 0
    assert "team-a  never expires" in capsys.readouterr().out
    file.write_text("sesame\n")
    assert main(["keys", "list", str(file)]) == 2
    error = capsys.readouterr().err
    assert "line 1 has 1 words" in error
    assert "sesame" not in error
