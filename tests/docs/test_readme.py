"""Everything that README shows to paste runs, read from README itself."""

from __future__ import annotations

import os
import shlex
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.markdown import ROOT, Block, blocks, tables

README = (ROOT / "README.md").read_text(encoding="utf-8")
MAKE = ["make demo", "make test"]
"""Commands that cannot run inside a test, which they themselves would run; they must be targets."""
SERVE = ".venv/bin/spectrie serve"
READY_S = 120.0
SAMPLE_S = 120.0


class Terminal:
    """Runs samples in a folder that looks like a checkout, one server at a time.

    Only what a second user of the machine would have to change is changed: the default ports, and
    the cache folder, which takes the corpus that a sample builds.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / ".venv/bin").mkdir(parents=True)
        command = folder / ".venv/bin/spectrie"
        # The command of this checkout, also where its packages are not installed.
        command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m spectrie "$@"\n')
        command.chmod(0o755)
        (folder / "python").symlink_to(ROOT / "python")
        user = Path(os.environ.get("SPECTRIE_CACHE") or Path.home() / ".cache/spectrie")
        (folder / "cache").mkdir()
        (folder / "cache/models").symlink_to(user / "models")
        self.addresses = {
            default: f"127.0.0.1:{free_port()}" for default in ("127.0.0.1:8000", "127.0.0.1:50051")
        }
        http, grpc = self.addresses.values()
        self.environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT / "python"), str(ROOT / "kernels")]),
            "SPECTRIE_CACHE": str(folder / "cache"),
            "SPECTRIE_HTTP": http,
            "SPECTRIE_GRPC": grpc,
            "no_proxy": "127.0.0.1",
        }
        self.http = http
        self.server: subprocess.Popen[bytes] | None = None
        self.log = folder / "server.log"

    def serve(self, command: str) -> None:
        """Starts a server in place of the last one and waits until it is ready."""
        self.stop()
        with self.log.open("wb") as log:
            self.server = subprocess.Popen(
                ["bash", "-c", f"exec {command}"],
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + READY_S
        while not self._ready():
            assert self.server.poll() is None, f"{command} ended:\n{self.log.read_text()}"
            assert time.monotonic() < deadline, f"{command} is not ready:\n{self.log.read_text()}"
            time.sleep(0.1)

    def _ready(self) -> bool:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(f"http://{self.http}/readyz", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def stop(self) -> None:
        """Ends the server as Ctrl-C does."""
        if self.server is not None:
            self.server.terminate()
            assert self.server.wait(60) == 0, self.log.read_text()
            self.server = None

    def run(self, *command: str) -> str:
        """Runs a command to its end; what it printed."""
        for default, address in self.addresses.items():
            command = tuple(word.replace(default, address) for word in command)
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SAMPLE_S,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr


def free_port() -> int:
    """A port that nothing listens on now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    """A terminal whose server is gone afterwards, however the test ends."""
    terminal = Terminal(tmp_path)
    yield terminal
    if terminal.server is not None:
        terminal.server.kill()
        terminal.server.wait()


def paste(terminal: Terminal, block: Block) -> None:
    """Runs one block of README as a reader would."""
    if block.language == "python":
        assert terminal.run(sys.executable, "-c", block.text).strip(), block.text
        return
    for command in block.commands:
        if command in MAKE:
            continue
        if command.startswith(SERVE):
            terminal.serve(command)
            continue
        printed = terminal.run("bash", "-c", command)
        # curl ends well on an error page, too.
        assert not command.startswith("curl") or '"choices"' in printed, printed
        assert printed.strip(), command


@pytest.mark.model
@pytest.mark.timeout(900)
@pytest.mark.skipif(shutil.which("curl") is None, reason="README's HTTP sample needs curl")
def test_samples_run_as_pasted(terminal: Terminal) -> None:
    for block in blocks(README):
        if block.language:
            paste(terminal, block)
    assert (terminal.folder / "state").is_dir(), "the last server keeps what it learns"
    terminal.stop()


@pytest.mark.model
def test_sample_of_the_sampling_page_runs(terminal: Terminal) -> None:
    page = (ROOT / "docs/sampling.md").read_text(encoding="utf-8")
    samples = [block for block in blocks(page) if block.language == "python"]
    assert len(samples) == 1
    paste(terminal, samples[0])


def test_only_known_kinds_of_blocks_are_fenced() -> None:
    languages = [block.language for block in blocks(README)]
    assert set(languages) == {"", "sh", "python"}
    assert languages.count("") == 1, "the picture; a sample without a language would not run"
    assert languages.count("python") == 3


def test_make_commands_are_targets() -> None:
    commands = [command for block in blocks(README) for command in block.commands]
    assert [command for command in commands if command.startswith("make")] == MAKE
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for command in MAKE:
        assert f"\n{command.removeprefix('make ')}:" in makefile


def test_readme_is_short_and_has_one_table() -> None:
    assert len(README.splitlines()) <= 120
    assert len(README.split()) <= 1000
    assert len(tables(README)) == 1
    assert len(tables(README)[0]) == 1 + 6


def test_readme_says_where_equal_seeds_may_get_different_answers() -> None:
    assert "exact if a check of bytes at the start says so, else `fast`:" in README
    assert "equal seeds may get different answers." in README
