"""The `spectrie` command: help, errors in one line, exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from spectrie.cli import COMMANDS, main
from tests.client.scripted import Server, delta, fail, finished, started


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    output = capsys.readouterr().out
    assert all(command.name in output for command in COMMANDS)


def test_no_command_prints_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert "commands:" in capsys.readouterr().out


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("spectrie ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["serv"], "unknown command 'serv'; did you mean 'serve'?"),
        (["generate", "m", "p", "--max-token", "3"], "unknown option --max-token; did you mean"),
        (["generate", "m", "p", "extra"], "unexpected argument 'extra'"),
        (["generate", "m"], "required: PROMPT"),
        (["generate", "m", "p", "--temperature", "hot"], "--temperature: 'hot' is not a number"),
        (
            ["serve", "m", "--http", "unix:h.sock"],
            "'unix:h.sock' is not an address: give HOST:PORT or off",
        ),
        (["generate", "m", "p", "--tls-ca", "ca.pem"], "--tls and its files: need --server"),
        (["generate", "m", "p", "--server", "h:1", "--tls-ca", "none.pem"], "--tls-ca none.pem:"),
        (["generate", "m", "p", "--dtype", "int8"], "--dtype: 'int8' is not one of"),
        (["generate", "m", "p", "--server", "nowhere"], "give HOST:PORT or unix:PATH"),
        (["generate", "m", "p", "--server", "h:1", "--dtype", "auto"], "--dtype: has no effect"),
    ],
)
def test_wrong_use_is_one_clear_line_and_two(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("spectrie: ")
    assert message in captured.err
    assert "Traceback" not in captured.err


def test_generate_streams_from_a_server(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    server.script.streams = [[started(), delta("ab", 1, 2), delta("cd", 3, 4), finished()]]
    arguments = ["generate", "m", "hello", "--server", server.target, "--stats", "--chat"]
    assert main([*arguments, "--seed", "7", "--stop", "x", "--speculation", "off"]) == 0
    captured = capsys.readouterr()
    assert captured.out == "abcd\n"
    assert "3 prompt + 4 new tokens; ended by length" in captured.err
    assert "accepted from prediction 2" in captured.err
    request = server.script.requests[0]
    assert (request.model, request.sampling.seed, request.chat.messages[0].content) == (
        "m",
        7,
        "hello",
    )
    assert request.speculation.enabled is False
    assert list(request.stopping.stop) == ["x"]


def test_generate_prints_json(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    server.script.streams = [[started(), delta("é", 1, 2), finished()]]
    assert main(["generate", "m", "p", "--server", server.target, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["text"] == "é"
    assert answer["speculation"]["accepted_by_source"] == {"prediction": 2}


def test_failure_of_the_server_is_one_line_and_one(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    import grpc

    server.script.streams = [[fail(grpc.StatusCode.NOT_FOUND, "no model 'm' here")]]
    assert main(["generate", "m", "p", "--server", server.target]) == 1
    assert capsys.readouterr().err == "spectrie: no model 'm' here\n"


def test_doctor_names_what_it_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SPECTRIE_CACHE", str(tmp_path))
    main(["doctor", "smollm2-135m"])
    output = capsys.readouterr().out
    for name in (
        "python",
        "core",
        "torch",
        "processor",
        "memory",
        "cache",
        "exactness",
        "kernels",
        "http",
        "grpc",
    ):
        assert name in output
    assert f"{tmp_path}" in output
    assert "spectrie models fetch smollm2-135m" in output


def test_closed_pipe_ends_quietly() -> None:
    done = subprocess.run(
        f"{sys.executable} -m spectrie doctor | true; exit ${{PIPESTATUS[0]}}",
        shell=True,
        executable="/bin/bash",
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stderr == ""
