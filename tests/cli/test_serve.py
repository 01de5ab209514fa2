"""The options that `spectrie serve` gives its router and its workers."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from spectrie.cli.flags.options import add_options
from spectrie.cli.flags.settings import Settings, resolve
from spectrie.cli.router import router_config
from spectrie.cli.serve.command import _router, _workers
from spectrie.cli.serve.served import Served, check_several, served_models
from spectrie.cli.worker import worker_options
from spectrie.errors import ConfigError


def settings(*arguments: str, command: str = "serve") -> Settings:
    parser = argparse.ArgumentParser()
    add_options(parser, command)
    return resolve(command, parser.parse_args(arguments), {})


def worker_flags(*arguments: str, index: int = 0) -> list[str]:
    models = [Served("m", Path("/model"))]
    programs = list(_workers(settings(*arguments), models, "unix:/w.sock"))
    command = list(programs[index].command(None))
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


def found(model: str) -> Served:
    return Served(Path(model).name, Path(model))


def test_models_have_the_names_that_the_command_line_gives_them() -> None:
    assert served_models(["/a/m"], [], found) == [Served("m", Path("/a/m"))]
    assert served_models(["/a/m"], ["x"], found) == [Served("x", Path("/a/m"))]
    named = served_models(["/a/m", "/b/m"], ["x=/b/m"], found)
    assert named == [Served("m", Path("/a/m")), Served("x", Path("/b/m"))]


@pytest.mark.parametrize(
    ("models", "names", "message"),
    [
        (["/a/m", "/b/m"], [], "two models are named 'm'.*NAME=/b/m"),
        (["/a/m", "/b/m"], ["x"], "NAME=MODEL for each"),
        (["/a/m"], ["x=/c/m"], "with one of /a/m"),
        (["/a/m"], ["=/a/m"], "allowed: NAME=MODEL"),
        (["/a/m"], ["x", "y"], "named 'x' and 'y'"),
        (["/a/m", "/a/m"], [], "given twice"),
    ],
)
def test_names_that_fit_no_model_are_refused(
    models: list[str], names: list[str], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        served_models(models, names, found)


def test_workers_of_several_models_share_the_machine_and_no_folder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("spectrie.model.machine.num_cores", lambda: 8)
    monkeypatch.setattr("spectrie.model.machine.available_memory_bytes", lambda: 10 << 30)
    given = settings("--workers=2", "--state-dir=/state", "--health=127.0.0.1:7000")
    models = [Served("a", Path("/a")), Served("../b", Path("/b"))]
    workers = []
    for program in _workers(given, models, "unix:/w.sock"):
        command = list(program.command(None))
        place = command.index("worker")
        flags = settings(*command[place + 2 :], command="worker")
        options = worker_options(command[place + 1], flags)
        assert (flags.threads, flags.kv_memory) == (2, 1 << 30)
        workers.append(
            (options.model, options.link.model_name, options.engine.state_dir, flags.health)
        )
    assert workers == [
        ("/a", "a", "/state/models/a/draft/0", "127.0.0.1:7000"),
        ("/a", "a", "/state/models/a/draft/1", "127.0.0.1:7001"),
        ("/b", "../b", "/state/models/%2E%2E%2Fb/draft/0", "127.0.0.1:7002"),
        ("/b", "../b", "/state/models/%2E%2E%2Fb/draft/1", "127.0.0.1:7003"),
    ]


def test_options_of_one_model_are_refused_for_several() -> None:
    check_several(settings())
    for flag in ("--corpus=a", "--drafter=/head"):
        with pytest.raises(ConfigError, match=flag.partition("=")[0]):
            check_several(settings(flag))
    with pytest.raises(ConfigError, match="one model, given x, y"):
        names = ("--served-model-name=x", "--served-model-name=y", "--router=unix:/w.sock")
        worker_options("/m", settings(*names, command="worker"))


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
