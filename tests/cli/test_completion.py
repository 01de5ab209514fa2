"""Completion: the scripts know every command and option, and shells read them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from spectrie.cli import COMMANDS, main
from spectrie.cli.console.completion import SHELLS
from spectrie.cli.flags.options import options_of

pytest.importorskip("shtab", reason="the environment is older than requirements.lock")


def script(shell: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["completion", shell]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("shell", SHELLS)
def test_script_has_every_command_and_option(
    shell: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = script(shell, capsys)
    assert [command.name for command in COMMANDS if command.name not in text] == []
    # fish names options without their dashes.
    flags = [option.flag for option in options_of("serve")]
    assert [flag for flag in flags if flag.removeprefix("--" * (shell == "fish")) not in text] == []


@pytest.mark.parametrize("shell", SHELLS)
def test_shell_reads_its_script(
    shell: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"needs {shell}")
    path = tmp_path / "spectrie"
    path.write_text(script(shell, capsys))
    subprocess.run([program, "-n", path], check=True)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("spectrie comp", {"completion"}),
        ("spectrie serve --metrics-l", {"--metrics-listen"}),
        ("spectrie models f", {"fetch"}),
        ("spectrie completion ", {"bash", "zsh", "fish"}),
    ],
)
def test_bash_completes(
    line: str, expected: set[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    bash = shutil.which("bash")
    assert bash is not None
    path = tmp_path / "spectrie"
    path.write_text(script("bash", capsys))
    words = line.split(" ")
    quoted = " ".join(f"'{word}'" for word in words)
    ask = (
        f"source {path}; COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1};"
        " COMP_LINE=x; _shtab_spectrie; printf '%s\\n' \"${COMPREPLY[@]}\""
    )
    done = subprocess.run([bash, "-c", ask], capture_output=True, text=True, check=True)
    assert expected <= {word.strip() for word in done.stdout.split()}


def test_unknown_shell_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "csh"]) == 2
    assert "csh" in capsys.readouterr().err


def test_script_is_made_without_packages_that_run_models() -> None:
    program = (
        "import sys; sys.modules.update(numpy=None, torch=None, safetensors=None, gguf=None);"
        "from spectrie.cli import main; assert main(['completion', 'zsh']) == 0"
    )
    subprocess.run([sys.executable, "-c", program], check=True, stdout=subprocess.DEVNULL)
