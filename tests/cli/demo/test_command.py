"""The demo against a scripted server: table, colours, exit code."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from spectrie._proto import inference_pb2 as pb
from spectrie.cli import main
from spectrie.cli.console.terminal import Painter
from spectrie.cli.demo.prompts import PROMPTS
from spectrie.printing.markdown import render_table
from spectrie.types import Source
from tests.client.scripted import Server, Step, delta, finished, started
from tests.tiny_model import write_tiny_model


def script_answers(server: Server, texts: list[str]) -> None:
    """A warm-up answer, then one stream per text."""
    whole = pb.GenerateResponse(
        started=started().started, choices=[pb.Choice(text="x", finished=finished().finished)]
    )
    server.script.unary = [whole]
    streams: list[list[Step]] = [
        [started(), delta(text, *range(len(text))), finished()] for text in texts
    ]
    # Calls are numbered together; the warm-up is call 0.
    server.script.streams = [[], *streams]


def test_identical_answers_end_in_a_table_and_zero(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    script_answers(server, ["same", "same"] * len(PROMPTS))
    assert main(["demo", "--server", server.target, "--max-tokens", "4"]) == 0
    output = capsys.readouterr().out
    assert output.count(" yes |") == len(PROMPTS)
    assert "prediction 2" in output
    assert "\x1b" not in output


def test_a_differing_answer_is_named_and_fails(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    script_answers(server, ["same", "same", "same", "more", "same", "same"])
    assert main(["demo", "--server", server.target, "--max-tokens", "4"]) == 1
    captured = capsys.readouterr()
    assert "depends on speculation: code" in captured.err
    assert " NO |" in captured.out


def test_speculation_is_off_then_on_and_nothing_is_learnt(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    script_answers(server, ["same"] * 2 * len(PROMPTS))
    main(["demo", "--server", server.target])
    wishes = [request.speculation for request in server.script.requests[1:]]
    assert [wish.enabled for wish in wishes] == [False, True] * len(PROMPTS)
    assert not any(wish.learn for wish in wishes)
    assert all(wish.HasField("learn") for wish in wishes)
    capsys.readouterr()


class OwnServers:
    """Stands for the servers that the demo starts: all are the scripted one."""

    def __init__(self, server: Server, drafter: str | None) -> None:
        self.server, self.drafter = server, drafter
        self.arguments: list[list[str]] = []

    @contextmanager
    def running(self, arguments: list[str], _: Any) -> Iterator[dict[str, Any]]:
        self.arguments.append(arguments)
        drafter = None if "--drafter=off" in arguments else self.drafter
        drafters = [] if drafter is None else [drafter]
        worker = {"dtype": "float32", "threads": 1, "drafters": drafters}
        yield {"grpc": self.server.target, "workers": [worker]}

    @property
    def drafters(self) -> list[str]:
        return [
            one.removeprefix("--drafter=")
            for arguments in self.arguments
            for one in arguments
            if one.startswith("--drafter")
        ]


@pytest.fixture
def own(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., OwnServers]:
    pytest.importorskip("torch")
    monkeypatch.setenv("SPECTRIE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("SPECTRIE_DRAFTER", raising=False)

    def make(texts: list[str], drafter: str | None = "tiny-eagle3, eagle3 00 ...") -> OwnServers:
        own = OwnServers(server, drafter)
        monkeypatch.setattr("spectrie.cli.demo.command.running", own.running)
        script_answers(server, ["same"] * 2 * len(PROMPTS))
        # The second server's warm-up, then its answers.
        streams = server.script.streams
        script_answers(server, texts)
        server.script.streams = [*streams, *server.script.streams]
        return own

    return make


def ship(model: Path, heads: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets a head ship for a model, which no server loads here."""
    from spectrie.model.files.fingerprint import model_hash
    from spectrie.model.files.measurements import Measurements
    from tests.model.drafters.heads import write_head

    origin = {"model_hash": model_hash(model, Measurements(None)), "namespaces": None}
    write_head(heads / "tiny-eagle3", origin=json.dumps(origin))
    monkeypatch.setattr("spectrie.model.drafters.shipped.HEADS", heads)


def test_a_head_that_ships_answers_too_and_its_gain_is_shown(
    own: Callable[..., OwnServers],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    servers = own(["same"] * len(PROMPTS))
    model = write_tiny_model(tmp_path / "tiny")
    ship(model, tmp_path / "heads", monkeypatch)
    assert main(["demo", str(model), "--max-tokens", "4"]) == 0
    assert servers.drafters == ["off", "auto"]
    output = capsys.readouterr().out
    assert "with tiny-eagle3 besides:" in output
    assert output.count(" yes |") == 2 * len(PROMPTS)
    assert output.count("--- speculation on, with tiny-eagle3") == len(PROMPTS)


def test_without_a_head_there_is_no_second_server(
    own: Callable[..., OwnServers],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    servers = own([])
    ship(write_tiny_model(tmp_path / "other", seed=2), tmp_path / "heads", monkeypatch)
    assert main(["demo", str(write_tiny_model(tmp_path / "tiny")), "--max-tokens", "4"]) == 0
    assert servers.drafters == ["off"]
    assert "besides" not in capsys.readouterr().out


def test_a_drafter_that_is_named_answers_too_and_off_is_off(
    own: Callable[..., OwnServers],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    model = write_tiny_model(tmp_path / "tiny")
    ship(model, tmp_path / "heads", monkeypatch)
    servers = own(["same", "more", "same"])
    assert main(["demo", str(model), "--max-tokens", "4", "--drafter", "my-head"]) == 1
    assert servers.drafters == ["off", "my-head"]
    assert "depends on speculation: code" in capsys.readouterr().err
    servers = own(["same"])
    assert main(["demo", str(model), "--max-tokens", "4", "--drafter", "off"]) == 0
    assert servers.drafters == ["off"]


def test_a_server_that_takes_no_drafter_is_not_asked(
    own: Callable[..., OwnServers],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    model = write_tiny_model(tmp_path / "tiny")
    ship(model, tmp_path / "heads", monkeypatch)
    servers = own([], drafter=None)
    assert main(["demo", str(model), "--max-tokens", "4"]) == 0
    assert servers.drafters == ["off", "auto"]
    output = capsys.readouterr().out
    assert "without a drafter: this server has none" in output and "besides" not in output


def test_bad_length_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--max-tokens", "1"]) == 2
    assert "--max-tokens: 1 is out of range" in capsys.readouterr().err


def test_painter_colours_by_source_only_when_enabled() -> None:
    assert Painter(enabled=False).source("a", Source.REQUEST) == "a"
    coloured = Painter(enabled=True).source("a", Source.REQUEST)
    assert coloured.startswith("\x1b[") and "a" in coloured
    assert Painter(enabled=True).source("a", Source.MODEL) == "a"
    assert all(source.label in Painter(enabled=True).legend() for source in Source)


def test_painter_obeys_no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal:
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert Painter(Terminal()).enabled  # type: ignore[arg-type]
    monkeypatch.setenv("NO_COLOR", "1")
    assert not Painter(Terminal()).enabled  # type: ignore[arg-type]


def test_table_lines_up() -> None:
    lines = render_table(["name", "n"], [["a", "1"], ["long name", "100"]]).splitlines()
    assert len({len(line) for line in lines}) == 1
    assert lines[1] == "| --------- | --: |"
