"""Several models behind one server: each answers as alone, whatever becomes of another's worker."""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import spectrie
from spectrie.client import Client
from spectrie.errors import NotFound
from tests.system.server import END_S, Program
from tests.system.server import serve as serve_alone
from tests.tiny_model import write_tiny_model
from tests.waiting import wait_until

OPTIONS: dict[str, Any] = {
    "seed": 7,
    "max_tokens": 200,
    "ignore_eos": True,
    "speculation": False,
    "timeout": 240,
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("several")
    names = ("first", "second")
    return [
        write_tiny_model(folder / name, seed=seed, max_context=4096)
        for seed, name in enumerate(names, 1)
    ]


@pytest.fixture(scope="module")
def alone(folders: list[Path]) -> dict[str, tuple[int, ...]]:
    """What each model answers in a process of its own, by the name it is served under."""
    answers = {}
    for name, folder in zip(("first", "other"), folders, strict=True):
        with spectrie.LLM(folder, dtype="float32", threads=1, kv_memory_bytes=64 << 20) as llm:
            answers[name] = tuple(llm.generate("def", **OPTIONS).token_ids)
    assert answers["first"] != answers["other"]
    return answers


def serve(folders: list[Path], module: str = "spectrie") -> Program:
    """A server of both models."""
    first, second = map(str, folders)
    return Program(
        "serve",
        first,
        second,
        f"--served-model-name=other={second}",
        "--http=127.0.0.1:0",
        "--grpc=127.0.0.1:0",
        "--dtype=float32",
        "--threads=1",
        "--kv-memory=64MiB",
        "--memory=16MiB",
        module=module,
    )


@pytest.fixture(scope="module")
def program(folders: list[Path]) -> Iterator[Program]:
    with serve(folders) as program:
        yield program


@pytest.fixture(scope="module")
def facts(program: Program) -> dict[str, Any]:
    return program.wait_ready()


def test_both_models_answer_as_alone_and_others_are_unknown(
    facts: dict[str, Any], alone: dict[str, tuple[int, ...]]
) -> None:
    assert facts["models"] == ["first", "other"]
    assert [worker["model"] for worker in facts["workers"]] == ["first", "other"]
    with Client(facts["grpc"]) as client:
        for name, token_ids in alone.items():
            # The first request to a model waits for its worker, if need be.
            assert client.generate("def", model=name, **OPTIONS).token_ids == token_ids
        assert [model.name for model in client.list_models()] == ["first", "other"]
        with pytest.raises(NotFound, match="first, other"):
            client.generate("def", model="second", max_tokens=1)


def test_worker_that_is_killed_disturbs_no_other_model(
    program: Program, facts: dict[str, Any], alone: dict[str, tuple[int, ...]]
) -> None:
    pids = {worker["model"]: worker["pid"] for worker in facts["workers"]}
    with Client(facts["grpc"], max_retries=0) as client:
        for killed, bystander in (("first", "other"), ("other", "first")):
            streams = {
                name: client.stream("def", model=name, **OPTIONS) for name in (killed, bystander)
            }
            for stream in streams.values():
                next(stream)
            os.kill(pids[killed], signal.SIGKILL)
            for name, stream in streams.items():
                answer = stream.final()
                assert answer.token_ids == alone[name]
                assert not answer.numerics_changed
    deadline = time.monotonic() + END_S
    while program.output.count("restarting it") < 2:
        assert time.monotonic() < deadline, program.output
        time.sleep(0.02)
    assert program.output.count("restarting it") == 2


class Asking:
    """A thread that asks a model for the same answer again and again."""

    def __init__(self, client: Client, name: str) -> None:
        self.answers: list[tuple[int, ...]] = []
        self._asked = (client, name)
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._ask, daemon=True)
        self._thread.start()

    def _ask(self) -> None:
        client, name = self._asked
        while not self._ending.is_set():
            # An error ends the thread, and the next wait misses its answers.
            self.answers.append(client.stream("def", model=name, **OPTIONS).final().token_ids)

    def wait_more(self, program: Program) -> None:
        """Waits for an answer that begins and ends from now on."""
        wanted = len(self.answers) + 2
        wait_until(lambda: len(self.answers) >= wanted, END_S, lambda: program.output)

    def end(self) -> None:
        """Lets the last answer end."""
        self._ending.set()
        self._thread.join(END_S)


def test_worker_that_cannot_start_again_leaves_the_other_model_alone_and_comes_back_once_it_can(
    folders: list[Path], alone: dict[str, tuple[int, ...]]
) -> None:
    config = folders[1] / "config.json"
    with serve(folders, "tests.system.impatient") as program:
        facts = program.wait_ready()
        pids = {worker["model"]: worker["pid"] for worker in facts["workers"]}

        def served() -> list[str]:
            answer = httpx.get(f"http://{facts['http']}/readyz", timeout=30)
            assert answer.status_code == 200
            return list(answer.json()["models"])

        with Client(facts["grpc"], max_retries=0) as client:
            wait_until(lambda: served() == ["first", "other"], END_S, lambda: program.output)
            long: dict[str, Any] = {**OPTIONS, "model": "other", "max_tokens": 3500}
            whole = client.generate("def", **long)
            asking = Asking(client, "first")
            cut = client.stream("def", **long)
            next(cut)
            config.rename(config.with_suffix(".away"))
            try:
                os.kill(pids["other"], signal.SIGKILL)
                line = program.wait_line("tried again every")
                assert "ERROR" in line and "has no config.json" in line
                assert "Now served: first by 1 of 1 workers, other by 0 of 1 workers" in line
                assert served() == ["first"]
                asking.wait_more(program)
            finally:
                config.with_suffix(".away").rename(config)
            # What the worker had begun has waited for its successor.
            assert cut.final().token_ids == whole.token_ids
            program.wait_line("attempts=2")
            assert served() == ["first", "other"]
            assert client.generate("def", model="other", **OPTIONS).token_ids == alone["other"]
            asking.wait_more(program)
            asking.end()
        assert set(asking.answers) == {alone["first"]}
        program.signal(signal.SIGINT)
        assert program.wait() == 0
    assert "worker-1 is back" in program.output
    assert "worker-0 ended" not in program.output


def test_server_ends_with_its_only_worker_that_cannot_start_again(
    folders: list[Path], tmp_path: Path
) -> None:
    folder = tmp_path / "only"
    shutil.copytree(folders[0], folder)
    with serve_alone(folder) as program:
        (worker,) = program.wait_ready()["workers"]
        (folder / "config.json").unlink()
        os.kill(worker["pid"], signal.SIGKILL)
        assert program.wait() == 1
        assert "has no config.json" in program.output
        assert "nothing can be served any more: ending" in program.output
