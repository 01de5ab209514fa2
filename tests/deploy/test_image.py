"""The image: its Dockerfile by reading it, its entry point and health command by running them."""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType

import pytest

from spectrie.cli.flags.options import TABLE
from spectrie.version import __version__
from spectrie.worker.health import HealthServer
from tests.deploy.watched import watched
from tests.docs.markdown import ROOT
from tools.kube.node.dockerfile import Stage, stages

FILE = ROOT / "deploy" / "Dockerfile"
STAGES = stages(FILE)
IMAGES = ("router", "cpu", "cuda")
EACH_IMAGE = pytest.mark.parametrize("image", [STAGES[name] for name in IMAGES], ids=IMAGES)
BUILT = {"dist/": "make wheel"}
"""What is copied and not checked in, and what makes it."""


def script(name: str) -> ModuleType:
    """A script of deploy/image, as a module."""
    path = ROOT / "deploy" / "image" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"image_{name}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def refusal(arguments: Sequence[str], environ: Mapping[str, str]) -> str | None:
    reason: str | None = script("entrypoint").refusal(arguments, environ)
    return reason


@EACH_IMAGE
def test_image_runs_as_its_own_user_who_owns_what_is_written_to(image: Stage) -> None:
    assert image.last("USER") == "65532:65532"
    user = next(words for words in image.commands if words[0] == "useradd")
    assert user[1:3] == ["--uid", "65532"]
    volumes = image.words("VOLUME")
    assert volumes == ["/var/cache/spectrie", "/var/lib/spectrie"]
    made = next(words for words in image.commands if words[0] == "install")
    assert made[made.index("-o") + 1] == "65532"
    assert made[-2:] == volumes
    written = [image.env["SPECTRIE_CACHE"], image.env.get("TRITON_CACHE_DIR", volumes[0])]
    assert all(any(f"{path}/".startswith(f"{at}/") for at in volumes) for path in written)


@EACH_IMAGE
def test_image_listens_where_it_says_and_on_all_addresses(image: Stage) -> None:
    ports = set(image.last("EXPOSE").split())
    assert {image.env["SPECTRIE_HTTP"], image.env["SPECTRIE_GRPC"]} == {
        f"0.0.0.0:{port}" for port in ports
    }
    assert image.env["SPECTRIE_METRICS_LISTEN"].startswith("127.0.0.1:")


@EACH_IMAGE
def test_variables_are_options(image: Stage) -> None:
    known = {option.variable for option in TABLE} | {"SPECTRIE_CACHE"}
    assert {name for name in image.env if name.startswith("SPECTRIE_")} <= known


@EACH_IMAGE
def test_image_is_labelled(image: Stage) -> None:
    names = ("title", "description", "version", "licenses")
    assert set(image.labels) == {f"org.opencontainers.image.{name}" for name in names}
    assert image.labels["org.opencontainers.image.version"] == "${VERSION}"
    assert f"VERSION={__version__}" in image.all("ARG")


@EACH_IMAGE
def test_image_starts_and_is_watched_by_scripts_that_it_copies(image: Stage) -> None:
    copied = dict(line.split() for line in image.all("COPY") if not line.startswith("--"))
    assert copied == {"deploy/image/": "/opt/image/"}
    for keyword in ("ENTRYPOINT", "HEALTHCHECK"):
        python, path = image.words(keyword)
        assert python == "/opt/spectrie/bin/python"
        assert (ROOT / "deploy/image" / path.removeprefix("/opt/image/")).is_file()


def test_cuda_image_can_compile_kernels_and_both_others_cannot() -> None:
    assert {"gcc", "libc6-dev", "python3-dev"} <= STAGES["cuda"].packages
    assert STAGES["cuda"].env["TRITON_CACHE_DIR"].startswith("/var/cache/spectrie/")
    assert not any("gcc" in STAGES[name].packages for name in ("router", "cpu"))


def test_only_install_sh_makes_environments() -> None:
    roles = {
        name: [words for words in STAGES[name].commands if "install.sh" in words[0]]
        for name in STAGES
    }
    assert [words[1:] for words in roles["build-router"]] == [
        ["--prefix", "/opt/spectrie", "--role", "router"]
    ]
    assert [words[1:] for words in roles["build-cpu"]] == [
        ["--prefix", "/opt/spectrie", "--role", "cpu"]
    ]
    assert [words[1:] for words in roles["build-all"]] == [
        ["--prefix", "/opt/spectrie", "--role", "all"]
    ]
    assert not any(roles[name] for name in IMAGES)
    taken = {name: STAGES[name].all("COPY")[-1] for name in IMAGES}
    environment = "/opt/spectrie /opt/spectrie"
    assert taken["router"] == f"--from=build-router {environment}"
    assert taken["cpu"] == f"--from=build-cpu {environment}"
    assert taken["cuda"] == f"--from=build-all {environment}"


def test_every_file_that_is_copied_exists_and_is_sent_to_the_builder() -> None:
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    assert ignored[0] == "*"
    for stage in STAGES.values():
        for line in stage.all("COPY"):
            if line.startswith("--"):
                continue
            source = line.split()[0]
            assert source in BUILT or (ROOT / source).exists(), source
            assert any(one.startswith(f"!{source}") for one in ignored), source


def test_every_command_of_the_build_exists_on_debian() -> None:
    if shutil.which("apt-get") is None:
        pytest.skip("this machine is no Debian")
    programs = {words[0] for stage in STAGES.values() for words in stage.commands}
    path = os.environ["PATH"] + ":/usr/sbin"
    for program in programs:
        local = ROOT / program.removeprefix("/src/")
        assert shutil.which(program, path=path) or os.access(local, os.X_OK), program


def test_every_stage_forgets_the_package_lists_that_it_fetched() -> None:
    for name in IMAGES:
        updates = [text for text in STAGES[name].all("RUN") if "apt-get update" in text]
        assert updates
        assert all("rm -rf /var/lib/apt/lists/*" in text for text in updates)


@pytest.mark.parametrize(
    ("arguments", "environ"),
    [
        (["serve", "MODEL"], {"SPECTRIE_HTTP": "0.0.0.0:8000"}),
        (["serve", "MODEL", "--http", "0.0.0.0:8000"], {}),
        (["router", "--grpc=[::]:50051"], {}),
        (["router", "--http=llm.example:80"], {}),
        (["router", "--http=off", "--grpc=10.0.0.1:50051"], {"SPECTRIE_OPEN": "0"}),
    ],
)
def test_server_without_keys_is_refused(arguments: list[str], environ: dict[str, str]) -> None:
    reason = refusal(arguments, environ)
    assert reason is not None
    assert "--api-keys" in reason and "SPECTRIE_OPEN=1" in reason


@pytest.mark.parametrize(
    ("arguments", "environ"),
    [
        (["serve", "MODEL", "--http=0.0.0.0:8000", "--api-keys=keys.toml"], {}),
        (["serve", "MODEL", "--http=0.0.0.0:8000"], {"SPECTRIE_API_KEYS": "keys.toml"}),
        (["serve", "MODEL", "--http=0.0.0.0:8000", "--tls-client-ca=ca.pem"], {}),
        (["serve", "MODEL", "--http=0.0.0.0:8000"], {"SPECTRIE_OPEN": "1"}),
        (["router", "--http=127.0.0.1:8000", "--grpc=unix:/run/s"], {"SPECTRIE_HTTP": "0.0.0.0:1"}),
        (["router", "--http=localhost:8000", "--grpc=[::1]:50051"], {}),
        (["serve", "--help"], {"SPECTRIE_HTTP": "0.0.0.0:8000"}),
        (["router", "-h"], {"SPECTRIE_HTTP": "0.0.0.0:8000"}),
        (["serve", "MODEL", "--http"], {}),
        (["router", "--http=0.0.0.0:http"], {}),
        (["worker", "MODEL"], {"SPECTRIE_HTTP": "0.0.0.0:8000"}),
        (["models", "list"], {"SPECTRIE_HTTP": "0.0.0.0:8000"}),
        ([], {"SPECTRIE_HTTP": "0.0.0.0:8000"}),
    ],
)
def test_other_command_is_started(arguments: list[str], environ: dict[str, str]) -> None:
    assert refusal(arguments, environ) is None


def test_keys_of_a_configuration_file_count(tmp_path: Path) -> None:
    file = tmp_path / "spectrie.toml"
    file.write_text('http = "0.0.0.0:8000"\n')
    assert refusal(["router", f"--config={file}"], {}) is not None
    file.write_text('http = "0.0.0.0:8000"\napi_keys = "keys.toml"\n')
    assert refusal(["router", f"--config={file}"], {}) is None


def started(folder: Path, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Runs the entry point by a Python beside a `spectrie` that shows what it was given."""
    python = folder / "python"
    if not python.exists():
        python.symlink_to(sys.executable)
        program = folder / "spectrie"
        program.write_text('#!/bin/sh\necho "started $*"\n')
        program.chmod(0o755)
    entry = ROOT / "deploy" / "image" / "entrypoint.py"
    return subprocess.run(
        [python, entry, *arguments],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)} | environ,
        capture_output=True,
        text=True,
    )


def test_entry_point_becomes_the_command_or_ends_with_one_line(tmp_path: Path) -> None:
    refused = started(tmp_path, "serve", "MODEL", SPECTRIE_HTTP="0.0.0.0:8000")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.count("\n") == 1
    taken = started(tmp_path, "serve", "a model", SPECTRIE_HTTP="0.0.0.0:1", SPECTRIE_OPEN="1")
    assert (taken.returncode, taken.stdout) == (0, "started serve a model\n")


def test_health_command_follows_a_router(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    health = script("health")
    monkeypatch.setenv("SPECTRIE_HEALTH", "127.0.0.1:1")
    with watched(tmp_path) as router:
        monkeypatch.setenv(
            "SPECTRIE_METRICS_LISTEN", f"0.0.0.0:{router.metrics.rpartition(':')[2]}"
        )
        assert health.main() == 0
    assert health.main() == 1


def test_health_command_follows_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    health = script("health")
    server = HealthServer("127.0.0.1:0")
    try:
        monkeypatch.setenv("SPECTRIE_METRICS_LISTEN", "127.0.0.1:1")
        monkeypatch.setenv("SPECTRIE_HEALTH", server.address)
        assert health.main() == 1
        server.set_serving(True)
        assert health.main() == 0
    finally:
        server.close()
    assert health.main() == 1


def test_router_that_takes_connections_and_does_not_answer_is_not_well(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    health, server = script("health"), HealthServer("127.0.0.1:0")
    monkeypatch.setattr(health, "_PATIENCE_S", 0.2)
    # As the kernel goes on taking connections for a process that is stopped.
    with socket.create_server(("127.0.0.1", 0)) as hanging:
        try:
            server.set_serving(True)
            port = hanging.getsockname()[1]
            monkeypatch.setenv("SPECTRIE_METRICS_LISTEN", f"127.0.0.1:{port}")
            monkeypatch.setenv("SPECTRIE_HEALTH", server.address)
            assert health.main() == 1
        finally:
            server.close()
