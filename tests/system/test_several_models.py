"""Several models behind one server: each answers as alone, and none is disturbed by another's end."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import spectrie
from spectrie.client import Client
from spectrie.errors import NotFound
from tests.system.server import END_S, Program
from tests.tiny_model import write_tiny_model

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
        write_tiny_model(folder / name, seed=seed, max_context=1024)
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


@pytest.fixture(scope="module")
def program(folders: list[Path]) -> Iterator[Program]:
    first, second = map(str, folders)
    with Program(
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
    ) as program:
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
