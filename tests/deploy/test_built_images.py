"""The images that `make images` makes, run as containers: read-only root, their own user, network and processes."""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.markdown import ROOT
from tests.tiny_model import write_tiny_model
from tests.waiting import wait_until
from tools.image.builder import MACHINES
from tools.image.container import Container, undecided
from tools.image.layout import Layout
from tools.kube.node.dockerfile import stages

FOLDER = ROOT / "images"
LAYOUT = Layout(FOLDER)
IMAGES = ("cpu", "router", "cuda")
PATIENCE_S = 120
# Nearly all of the image for GPUs is torch, with the libraries that it brings.
MOST_BYTES = {"cpu": 140_000_000, "router": 100_000_000, "cuda": 4_000_000_000}
STREAMS, TOKENS = 4, 6000
# As Triton builds what starts a kernel: with the image's compiler, against Python's headers.
COMPILING = '''\
import os
import spectrie_kernels
import torch
from triton.runtime.build import compile_module_from_src

source = """\
#include <Python.h>
static struct PyModuleDef one = {PyModuleDef_HEAD_INIT, "one", NULL, -1, NULL};
PyMODINIT_FUNC PyInit_one(void) { return PyModule_Create(&one); }
"""
print(compile_module_from_src(source, "one").__name__)
place = os.environ["TRITON_CACHE_DIR"]
print(place, len(os.listdir(place)), torch.version.cuda)
'''
STREAMING = Path(__file__).with_name("streaming.py")

pytestmark = [pytest.mark.deep, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module", params=IMAGES)
def image(request: pytest.FixtureRequest) -> str:
    """The name of an image that is there."""
    return made(request.param)


def made(name: str) -> str:
    if name not in LAYOUT.names():
        how = " ".join(f"--target {one}" for one in IMAGES)
        how = f"python -m tools.image {FOLDER.name} {how}"
        pytest.skip(f"NOT DECIDED: {FOLDER.name}/ has no {name}; {how} makes all")
    return name


@pytest.fixture(scope="module")
def roots(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Path]]:
    """The unpacked layers of each image."""
    reason = undecided()
    if reason is not None:
        pytest.skip(f"NOT DECIDED: {reason}")
    found = {}
    for name in LAYOUT.names():
        found[name] = tmp_path_factory.mktemp(name)
        LAYOUT.unpack(name, found[name])
    yield found
    for root in found.values():
        shutil.rmtree(root)


def test_image_has_its_size_and_the_settings_of_the_dockerfile(image: str) -> None:
    size = LAYOUT.size(image)
    print(f"{image}: {size / 1e6:.1f} MB compressed")
    assert size <= MOST_BYTES[image]
    config, stage = LAYOUT.config(image), stages(ROOT / "deploy" / "Dockerfile")[image]
    assert config["User"] == stage.last("USER")
    assert config["Entrypoint"] == stage.words("ENTRYPOINT")
    assert set(config["Volumes"]) == set(stage.words("VOLUME"))
    assert dict(one.split("=", 1) for one in config["Env"]) == stage.env
    assert config["Labels"].keys() == stage.labels.keys()


def test_another_program_reads_the_image(image: str, tmp_path: Path) -> None:
    if shutil.which("skopeo") is None:
        pytest.skip("NOT DECIDED: skopeo is not installed (Debian package skopeo)")
    source = f"oci:{FOLDER}:{image}"
    words = ["skopeo", "inspect", source]
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    found = json.loads(done.stdout)
    assert found["Labels"] == LAYOUT.config(image)["Labels"]
    assert (found["Os"], found["Architecture"]) == ("linux", MACHINES[platform.machine()])
    # A copy checks every digest, those of the bare archives too where the form changes.
    to = f"docker-archive:{tmp_path / 'image.tar'}:spectrie:test"
    subprocess.run(["skopeo", "--insecure-policy", "copy", source, to], check=True)


def test_without_arguments_it_shows_the_help(
    image: str, roots: dict[str, Path], tmp_path: Path
) -> None:
    with Container(LAYOUT.config(image), roots[image], tmp_path, []) as container:
        assert container.wait(PATIENCE_S) == 0, container.log
        assert "serve" in container.log


@pytest.mark.parametrize("command", ["serve", "router"])
def test_a_server_that_everyone_could_use_is_refused(
    image: str, command: str, roots: dict[str, Path], tmp_path: Path
) -> None:
    arguments = [command, "/models/tiny"] if command == "serve" else [command]
    with Container(LAYOUT.config(image), roots[image], tmp_path, arguments) as container:
        assert container.wait(PATIENCE_S) == 2
        assert "SPECTRIE_OPEN=1" in container.log
        assert container.log.count("\n") == 1


def ready(container: Container) -> None:
    def is_ready() -> bool:
        assert container.exit_code is None, container.log
        return "spectrie ready " in container.log

    wait_until(is_ready, PATIENCE_S, lambda: container.log)


def test_router_without_a_worker_is_not_well_and_holds_nothing_that_runs_models(
    roots: dict[str, Path], tmp_path: Path
) -> None:
    env, image = {"SPECTRIE_OPEN": "1"}, made("router")
    with Container(LAYOUT.config(image), roots[image], tmp_path, ["router"], env=env) as container:
        ready(container)
        assert container.health() == 1
        container.terminate()
        assert container.wait(PATIENCE_S) == 0, container.log
    assert not list((roots[image] / "opt/spectrie").rglob("numpy"))


@pytest.mark.parametrize("name", ["cpu", "cuda"])
def test_server_with_its_model_on_a_volume_answers_and_loses_no_stream_when_it_drains(
    name: str, roots: dict[str, Path], tmp_path: Path
) -> None:
    image = made(name)
    model = write_tiny_model(tmp_path / "models/tiny", max_context=8192)
    cache = tmp_path / "cache"
    cache.mkdir()
    arguments = ["serve", "/models/tiny", "--drain-timeout=600"]
    volumes = {"/models": model.parent, "/var/cache/spectrie": cache}
    with Container(
        LAYOUT.config(image),
        roots[image],
        tmp_path / "container",
        arguments,
        env={"SPECTRIE_OPEN": "1"},
        volumes=volumes,
    ) as container:
        ready(container)
        assert container.health() == 0
        assert container.execute("id", "-u").stdout == "65532\n"
        for place in ("/opt/spectrie/x", "/etc/x", "/x"):
            assert "Read-only" in container.execute("touch", place).stderr
        words = [sys.executable, str(STREAMING), "http://127.0.0.1:8000/v1", "tiny"]
        with container.beside(*words, str(STREAMS), str(TOKENS)) as client:
            assert client.stdout is not None
            assert client.stdout.readline() == "running\n", client.stdout.read()
            container.terminate()
            # Draining, it is not ready, and still answers what it took.
            wait_until(lambda: container.health() == 1, PATIENCE_S, lambda: container.log)
            (found,) = client.stdout.read().splitlines()
        assert json.loads(found) == [f"length {TOKENS}"] * STREAMS
        assert container.wait(PATIENCE_S) == 0, container.log
    assert any(cache.iterdir())


def test_image_for_gpus_compiles_what_starts_a_kernel(
    roots: dict[str, Path], tmp_path: Path
) -> None:
    image, cache = made("cuda"), tmp_path / "cache"
    cache.mkdir()
    config = LAYOUT.config(image) | {"Entrypoint": ["/opt/spectrie/bin/python", "-c", COMPILING]}
    with Container(
        config,
        roots[image],
        tmp_path / "container",
        [],
        volumes={"/var/cache/spectrie": cache},
    ) as container:
        assert container.wait(PATIENCE_S) == 0, container.log
        name, place, count, cuda = container.log.split()
    assert (name, place, int(count)) == ("one", "/var/cache/spectrie/triton", 1)
    assert int(cuda.partition(".")[0]) >= 12
