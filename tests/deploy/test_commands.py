"""Each command that the pages of deployment show is run by a test, or listed with the reason why not."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import kubernetes_validate
import pytest
import yaml

from spectrie.cli import main
from spectrie.model.files.store import entry
from tests.deploy.checks import faults
from tests.deploy.manifests import FOLDER, Manifest, documents, pods
from tests.deploy.test_chart import HELM, NEEDS_HELM
from tests.deploy.test_renders import CUSTOM, VERSIONS
from tests.docs.markdown import ROOT, blocks
from tools.kube.surroundings import claims_of

PAGES = [ROOT / "deploy" / "README.md", ROOT / "docs" / "kubernetes.md"]
CLUSTER = "needs a cluster; make kube-e2e applies its files to an API server"
FETCHED, ON_CLAIM, SPLIT = (
    f"helm install spectrie deploy/helm/spectrie {options}"
    for options in (
        "--set image.repository=registry.example/spectrie --set model.name=smollm2-135m --set model.fetch=true",
        "--set image.repository=registry.example/spectrie",
        "--values deploy/helm/examples/split.yaml --set image.repository=registry.example/spectrie",
    )
)
INSTALLS = [FETCHED, ON_CLAIM, SPLIT]
PIPED = [
    f"sed 's,image: ,&registry.example/,' deploy/kubernetes/{file} | kubectl apply -f -"
    for file in ("claims/models.yaml", "standalone.yaml")
]
RUN = {
    **dict.fromkeys(
        INSTALLS, "test_release_of_the_page_finds_its_image_and_its_claims, as helm template"
    ),
    **dict.fromkeys(
        PIPED, "test_manifests_of_the_page_name_the_image_of_a_registry, up to kubectl"
    ),
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
    "kubectl apply -f deploy/kubernetes/claims/cache.yaml": "needs a cluster; a test reads the claim's schema",
    "kubectl wait --for=condition=complete job/spectrie-models --timeout=10m": "needs a cluster",
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


def applied() -> list[Manifest]:
    """What the files hold that the pages give to kubectl, on its own or by a pipe."""
    text = "\n".join(one for one in shown() if "kubectl apply" in one)
    files = re.findall(r"deploy/kubernetes/[\w./-]+", text)
    return [one for file in files for one in documents(ROOT / file)]


@NEEDS_HELM
@pytest.mark.parametrize(
    ("command", "claims"),
    [(FETCHED, set()), (ON_CLAIM, {"spectrie-models"}), (SPLIT, {"spectrie-cache"})],
    ids=["fetched", "on-claim", "split"],
)
def test_release_of_the_page_finds_its_image_and_its_claims(command: str, claims: set[str]) -> None:
    assert HELM is not None
    words = shlex.split(command)
    assert words[:2] == ["helm", "install"]
    words = [HELM, "template", *words[2:], "--kube-version", VERSIONS[-1]]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    images = set(re.findall(r"^ *image: (.+)$", done.stdout, re.MULTILINE))
    assert images == {"registry.example/spectrie:0.1.0"}
    text = done.stdout.replace("registry.example/", "")
    manifests = [one for one in yaml.safe_load_all(text) if one]
    assert faults(manifests) == {}
    assert claims_of(manifests) == claims
    made = {one["metadata"]["name"] for one in applied() if one["kind"] == "PersistentVolumeClaim"}
    assert claims <= made


@NEEDS_HELM
def test_settings_of_the_page_leave_out_what_a_cluster_may_lack() -> None:
    """Each `--set` of the prose, over the release before it."""
    assert HELM is not None
    page = " ".join((ROOT / "docs" / "kubernetes.md").read_text(encoding="utf-8").split())
    kinds = "PodMonitor PrometheusRule HorizontalPodAutoscaler PersistentVolumeClaim"
    left = {}
    for option in re.findall(r"`--set ([\w.=,]+)`", page):
        install = FETCHED if "state" in option else SPLIT
        words = [HELM, "template", *shlex.split(install)[2:], "--kube-version", VERSIONS[-1]]
        words += ["--set", option]
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
        made = {one["kind"] for one in yaml.safe_load_all(done.stdout) if one}
        if "volumeClaimTemplates" in done.stdout:
            made.add("PersistentVolumeClaim")
        left[option] = {one for one in kinds.split() if one not in made}
    assert left == {
        "state.kind=scratch": set(kinds.split()),
        "monitoring.podMonitor=false,monitoring.rules=false": {"PodMonitor", "PrometheusRule"},
        "autoscaling.enabled=false,replicas=3": {"HorizontalPodAutoscaler"},
    }


@pytest.mark.parametrize("command", PIPED)
def test_manifests_of_the_page_name_the_image_of_a_registry(command: str) -> None:
    before, _, after = command.partition(" | ")
    assert after == "kubectl apply -f -"
    done = subprocess.run(shlex.split(before), cwd=ROOT, capture_output=True, text=True, check=True)
    images = set(re.findall(r"^ *image: (.+)$", done.stdout, re.MULTILINE))
    assert images == {"registry.example/spectrie:0.1.0"}


def test_job_of_the_page_puts_the_model_where_the_worker_looks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    claim, job = documents(FOLDER / "claims" / "models.yaml")
    # A workload of the same pod, so that each check of pods reads it.
    workload = {"kind": "Deployment", "metadata": job["metadata"], "spec": job["spec"]}
    # It has neither a worker nor a router, whose order is asked.
    assert set(faults([workload])) == {"order"}
    (pod,) = pods([workload])
    (fetch,) = pod.containers
    mounts = {one["name"]: one["mountPath"] for one in fetch.spec["volumeMounts"]}
    monkeypatch.setenv("SPECTRIE_CACHE", fetch.env["SPECTRIE_CACHE"])
    assert claims_of([workload]) == {claim["metadata"]["name"]}
    stored = entry(fetch.spec["args"][2]).relative_to(mounts["models"])
    (served,) = pods(documents(FOLDER / "standalone.yaml"))
    worker = next(one for one in served.ours if one.command == "worker")
    assert worker.spec["args"][1] == f"/models/{stored}"


@pytest.mark.parametrize("version", VERSIONS)
def test_manifests_that_commands_apply_match_the_schema(version: str) -> None:
    assert len(applied()) > 3
    for one in applied():
        if one["kind"] not in CUSTOM:
            kubernetes_validate.validate(one, version, strict=True)
