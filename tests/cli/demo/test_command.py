"""The demo against a scripted server: table, colours, exit code."""

from __future__ import annotations

import pytest

from spectrie._proto import inference_pb2 as pb
from spectrie.cli import main
from spectrie.cli.console.terminal import Painter
from spectrie.cli.demo.prompts import PROMPTS
from spectrie.printing.markdown import render_table
from spectrie.types import Source
from tests.client.scripted import Server, Step, delta, finished, started


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
