"""The options that `spectrie serve` gives its router and its workers."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from spectrie.cli.flags.options import add_options
from spectrie.cli.flags.settings import Settings, resolve
from spectrie.cli.router import router_config
from spectrie.cli.serve import _router, _worker
from spectrie.cli.worker import worker_options
from spectrie.errors import ConfigError


def settings(*arguments: str, command: str = "serve") -> Settings:
    parser = argparse.ArgumentParser()
    add_options(parser, command)
    return resolve(command, parser.parse_args(arguments), {})


def worker_flags(*arguments: str, index: int = 0) -> list[str]:
    program = _worker(settings(*arguments), Path("/model"), "m", "unix:/w.sock", index)
    command = list(program.command(None))
    return command[command.index("/model") + 1 :]


def worker_memory(flags: list[str]) -> tuple[str | None, tuple[str, ...], float]:
    options = worker_options("/model", settings(*flags, command="worker")).engine
    return options.state_dir, options.corpora, options.snapshot_every_s


def test_each_worker_keeps_its_memory_in_a_folder_of_its_own() -> None:
    arguments = ("--workers=2", "--state-dir=/state", "--snapshot-every=0")
    folders = [worker_memory(worker_flags(*arguments, index=index)) for index in (0, 1)]
    assert folders == [
        ("/state/draft/0", (), 0.0),
        ("/state/draft/1", (), 0.0),
    ]
    assert worker_memory(worker_flags()) == (None, (), 300.0)


def test_the_router_keeps_added_corpora_in_the_same_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    program = _router(settings("--state-dir=state"), "unix:/w.sock", "unix:/a.sock")
    command = list(program.command(None))
    flags = command[command.index("router") + 1 :]
    config = router_config(settings(*flags, command="router"), tmp_path)
    assert config["workers"]["state_dir"] == str(tmp_path / "state")
    config = router_config(settings(command="router"), tmp_path)
    assert config["workers"]["state_dir"] is None


def test_the_routers_share_by_an_address_that_no_command_line_shows(tmp_path: Path) -> None:
    address = "rediss://ann:secret@redis.example:6379"
    given = settings(f"--redis={address}", "--private-namespace=a", "--private-namespace=b")
    program = _router(given, "unix:/w.sock", "unix:/a.sock")
    command = list(program.command(None))
    assert not any("secret" in word for word in command)
    assert program.environment == {"SPECTRIE_REDIS": address}
    flags = command[command.index("router") + 1 :]
    fleet = router_config(settings(*flags, command="router"), tmp_path)["fleet"]
    assert fleet == {"redis": None, "private_namespaces": ["a", "b"]}
    fleet = router_config(settings(f"--redis={address}", command="router"), tmp_path)["fleet"]
    assert fleet["redis"] == address


def test_corpora_reach_workers_as_absolute_paths_and_missing_ones_end_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("one.corpus", "two.corpus"):
        Path(name).write_bytes(b"")
    _, corpora, _ = worker_memory(worker_flags("--corpus=one.corpus", "--corpus=two.corpus"))
    assert corpora == (str(tmp_path / "one.corpus"), str(tmp_path / "two.corpus"))
    with pytest.raises(ConfigError, match="no corpus 'three'"):
        worker_flags("--corpus=three")


def test_operators_dial_a_private_socket_unless_told_otherwise(tmp_path: Path) -> None:
    def admin(*arguments: str) -> object:
        return router_config(settings(*arguments, command="router"), tmp_path)["listen"]["admin"]

    assert admin() == f"unix:{tmp_path}/admin.sock"
    assert admin("--admin=127.0.0.1:0") == "127.0.0.1:0"
    assert admin("--admin=off") is None
