"""Each command that the pages of deployment show is run by a test, or listed with the reason why not."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from spectrie.cli import main
from tests.deploy.manifests import FOLDER, documents, pods
from tests.docs.markdown import ROOT, blocks

PAGES = [ROOT / "deploy" / "README.md", ROOT / "docs" / "kubernetes.md"]
CLUSTER = "needs a cluster; make kube-e2e applies its files to an API server"
RUN = {
    "spectrie keys new team-a >> keys.toml": "test_keys_of_the_page_are_those_that_the_pod_reads",
    "kubectl exec spectrie-0 -c router -- spectrie memory stats": "test_command_in_a_pod_finds_its_container",
    "make wheel": "tests/packaging/test_wheels.py",
    "make images": "make test-deep, before tests/deploy/test_built_images.py",
    "skopeo copy oci:images:cpu docker-archive:spectrie-cpu.tar:spectrie:0.1.0": "tests/deploy/test_built_images.py",
    "deploy/install.sh --prefix /opt/spectrie": "tests/packaging/test_wheels.py",
}
NOT_RUN = {
    "docker build --build-arg BASE=spectrie:0.1.0 -t registry.example/your-app:1.0 examples/pod": "needs Docker",
    "kubectl create secret generic spectrie-keys --from-file=keys.toml": CLUSTER,
    "kubectl create secret generic spectrie-worker-token --from-file=token": CLUSTER,
    "kubectl apply -f deploy/kubernetes/standalone.yaml": CLUSTER,
    "helm install spectrie deploy/helm/spectrie --values deploy/helm/examples/standalone.yaml": CLUSTER,
    "helm install spectrie deploy/helm/spectrie --values deploy/helm/examples/split.yaml": CLUSTER,
    "openssl rand -hex 32 > token": "another program, and nothing of ours reads its form",
    "docker build -f deploy/Dockerfile --target cpu -t spectrie:0.1.0 .": "needs Docker",
    "docker run --read-only --tmpfs /tmp --volume spectrie-cache:/var/cache/spectrie "
    "-p 127.0.0.1:8000:8000 --env SPECTRIE_OPEN=1 spectrie:0.1.0 serve smollm2-135m": "needs Docker",
}


def shown() -> list[str]:
    """The commands of the pages, blanks made one."""
    return [
        " ".join(command.split())
        for page in PAGES
        for block in blocks(page.read_text(encoding="utf-8"))
        if not block.language
        for command in block.commands
    ]


def test_each_command_is_run_or_listed_with_a_reason() -> None:
    commands = set(shown())
    assert commands == RUN.keys() | NOT_RUN.keys()
    print(f"commands of deployment: {len(RUN)} run, {len(NOT_RUN)} not run")


def test_files_that_commands_name_exist() -> None:
    paths = {
        word
        for command in shown()
        for word in shlex.split(command)
        if re.fullmatch(r"(deploy|examples|tools)/[\w./-]+", word)
    }
    assert len(paths) > 4
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_secrets_that_commands_make_are_those_that_pods_mount() -> None:
    made = set(re.findall(r"create secret generic (\S+) --from-file=(\S+)", "\n".join(shown())))
    mounted = set()
    for path in FOLDER.glob("*.yaml"):
        for pod in pods(documents(path)):
            for volume in pod.spec["volumes"]:
                if "secret" in volume:
                    mounted.add(volume["secret"]["secretName"])
    assert {name for name, _ in made} == mounted - {"spectrie-tls"}
    read = {
        value.rpartition("/")[2]
        for path in FOLDER.glob("*.yaml")
        for pod in pods(documents(path))
        for one in pod.ours
        for key in ("api_keys", "worker_token_file")
        if (value := one.settings.get(key))
    }
    assert {file for _, file in made} == read


def test_keys_of_the_page_are_those_that_the_pod_reads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["keys", "new", "team-a"]) == 0
    (tmp_path / "keys.toml").write_text(capsys.readouterr().out)
    assert main(["keys", "list", str(tmp_path / "keys.toml")]) == 0
    assert "team-a" in capsys.readouterr().out


def test_command_in_a_pod_finds_its_container() -> None:
    command = next(one for one in shown() if one.startswith("kubectl exec"))
    words = shlex.split(command)
    pod = pods(documents(FOLDER / "standalone.yaml"))[0]
    assert words[2] == f"{pod.name}-0"
    router = next(one for one in pod.ours if one.name == words[words.index("-c") + 1])
    assert router.settings["admin"] == router.env["SPECTRIE_ADMIN"]
    environ = os.environ | router.env | {"PYTHONPATH": os.pathsep.join(sys.path)}
    words = [sys.executable, "-m", *words[words.index("--") + 1 :]]
    done = subprocess.run(words, env=environ, capture_output=True, text=True)
    # No router listens there on this machine: the socket of the pod is what it looks for.
    assert done.returncode != 0
    assert router.env["SPECTRIE_ADMIN"] in done.stderr
