"""A worker on a CPU without torch: the same tokens, and nothing that it loads needs torch."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from spectrie.client import Client
from spectrie.llm import LLM
from tests.model.cases import write_cases
from tests.model.torch_free import MISSING, answers

pytestmark = pytest.mark.usefixtures("own_cache")

ROOT = Path(__file__).parents[2]
# What Python runs first: a module that is None is one that is not installed.
ABSENT = f"import sys\nfor name in {MISSING!r}:\n    sys.modules[name] = None\n"


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A model with a head, one of every family, and one to convert."""
    return write_cases(tmp_path_factory.mktemp("torch-free"))


def environment(folder: Path, *, absent: bool) -> dict[str, str]:
    paths = [ROOT, ROOT / "python"]
    if absent:
        (folder / "absent").mkdir(exist_ok=True)
        (folder / "absent/sitecustomize.py").write_text(ABSENT)
        paths.insert(0, folder / "absent")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SPECTRIE_")}
    return kept | {
        "PYTHONPATH": os.pathsep.join(map(str, paths)),
        "SPECTRIE_CACHE": str(folder / "cache"),
    }


def run(folder: Path, *arguments: str, absent: bool) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        env=environment(folder, absent=absent),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=240,
    )


def computed(folder: Path, cases: dict[str, Any], device: str, *, absent: bool) -> dict[str, Any]:
    given = json.dumps({"cases": cases, "device": device})
    done = run(folder, "tests.model.torch_free", given, absent=absent)
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    assert not set(MISSING) & set(result["loaded"])
    return result["answers"]  # type: ignore[no-any-return]


def test_it_computes_the_same_in_every_family(cases: dict[str, Any], tmp_path: Path) -> None:
    assert computed(tmp_path, cases, "auto", absent=True) == answers(cases, "cpu")


def test_where_torch_is_installed_a_cpu_does_without(cases: dict[str, Any], tmp_path: Path) -> None:
    few = cases | {"folders": []}
    assert len(computed(tmp_path, few, "cpu", absent=False)["float32"]["greedy"]) == 24


@contextmanager
def serving(folder: Path, model: str) -> Iterator[dict[str, str]]:
    """The addresses of a server without torch."""
    command = ["spectrie", "serve", model, "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0"]
    process = subprocess.Popen(
        [sys.executable, "-m", *command, "--dtype", "float32"],
        env=environment(folder, absent=True),
        cwd=folder,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        line = next((one for one in process.stdout if one.startswith("spectrie ready ")), None)
        assert line is not None, f"ended with {process.wait(60)} before it was ready"
        yield json.loads(line.removeprefix("spectrie ready "))
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=120)


def test_a_server_without_torch_answers_over_grpc_and_http(
    cases: dict[str, Any], tmp_path: Path
) -> None:
    with LLM(cases["model"], dtype="float32", device="cpu", threads=1, num_pages=64) as llm:
        expected = llm.generate("hello", max_tokens=8, temperature=0.0, ignore_eos=True)
    with serving(tmp_path, cases["model"]) as addresses:
        with Client(addresses["grpc"], timeout=60) as client:
            answer = client.generate("hello", max_tokens=8, temperature=0.0, ignore_eos=True)
        assert answer.token_ids == expected.token_ids
        body = {
            "model": "tiny",
            "prompt": "hello",
            "max_tokens": 8,
            "temperature": 0,
            "ignore_eos": True,
        }
        url = f"http://{addresses['http']}/v1/completions"
        reply = httpx.post(url, json=body, timeout=60)
        assert reply.json()["choices"][0]["text"] == expected.text


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("generate", "{model}", "x", "--device", "cuda"), "device is 'cuda', which needs torch"),
        (("train-head", "{model}", "--output", "head", "--self-generate"), "training a head"),
    ],
)
def test_what_needs_torch_names_the_line_that_installs_it(
    cases: dict[str, Any], tmp_path: Path, arguments: tuple[str, ...], named: str
) -> None:
    filled = [one.format(model=cases["model"]) for one in arguments]
    done = run(tmp_path, "spectrie", *filled, absent=True)
    assert done.returncode == 2
    assert named in done.stderr
    assert "pip install 'spectrie[worker]'" in done.stderr
    assert "Traceback" not in done.stderr
