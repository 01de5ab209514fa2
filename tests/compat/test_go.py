"""The client of examples/go, its messages made here, beside a real server: waits for it, and outlives its restart."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from spectrie.client import Client
from tests.compat.conftest import ROOT
from tests.examples.conftest import endless
from tests.relay import Gate
from tests.system.server import serve

__all__ = ["endless"]

PROMPT = "print the class"
WAIT_S = 120
MADE = "module=example,Mspectrie/v1/inference.proto=example/spectriev1"


@pytest.fixture(scope="module")
def program(tools: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The client, built."""
    folder = tmp_path_factory.mktemp("go") / "example"
    shutil.copytree(ROOT / "examples" / "go", folder)
    plugins = [
        f"--plugin={name}={tools / 'bin' / name}"
        for name in ("protoc-gen-go", "protoc-gen-go-grpc")
    ]
    outputs = ["--go_out=.", f"--go_opt={MADE}", "--go-grpc_out=.", f"--go-grpc_opt={MADE}"]
    protoc = [sys.executable, "-m", "grpc_tools.protoc", "-I", str(ROOT / "proto")]
    subprocess.run(
        [*protoc, *plugins, *outputs, "spectrie/v1/inference.proto"], cwd=folder, check=True
    )
    for command in (["go", "vet", "."], ["go", "build", "-o", "client", "."]):
        subprocess.run(command, cwd=folder, check=True, timeout=280)
    return folder / "client"


def test_go_client_waits_for_the_model_and_outlives_its_restart(
    endless: Path, program: Path
) -> None:
    with Gate() as gate:
        client = subprocess.Popen(
            [program, gate.address, PROMPT], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        try:
            assert client.stderr is not None
            assert client.stderr.readline() == b"waiting for the model\n"
            with serve(endless) as first:
                gate.lead_to(first.wait_ready()["grpc"], hold_after=3000)
                gate.wait_held()
                first.process.kill()
                first.wait()
                gate.lead_to(None)
            with serve(endless) as second:
                target = second.wait_ready()["grpc"]
                gate.lead_to(target)
                text, log = client.communicate(timeout=WAIT_S)
                assert client.returncode == 0, log
                seed = int(log.partition(b"asking again for seed ")[2].partition(b":")[0])
                with Client(target) as ours:
                    undisturbed = ours.generate(PROMPT, max_tokens=1500, seed=seed)
        finally:
            client.kill()
            client.communicate()
    assert text.decode() == undisturbed.text
