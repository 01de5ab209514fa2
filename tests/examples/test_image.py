"""The image of examples/pod, and the pod of deploy/kubernetes that runs it."""

from __future__ import annotations

import re
import shlex

from tests.deploy.manifests import FOLDER, documents, pods
from tests.docs.markdown import ROOT
from tools.kube.node.dockerfile import stages

EXAMPLE = ROOT / "examples" / "pod"
IMAGE = next(reversed(stages(EXAMPLE / "Dockerfile").values()))
POD = pods(documents(FOLDER / "sidecars.yaml"))[0]
APP = next(one for one in POD.containers if one.name == "app")


def test_image_adds_the_app_to_one_of_ours_and_runs_it() -> None:
    source, folder = IMAGE.last("COPY").split()
    assert (EXAMPLE / source).is_file()
    python = stages(ROOT / "deploy" / "Dockerfile")["router"].words("ENTRYPOINT")[0]
    assert IMAGE.words("ENTRYPOINT") == [python, f"{folder}{source}"]
    assert IMAGE.words("CMD") == []


def test_pod_runs_the_command_of_the_image_where_it_listens() -> None:
    assert APP.spec["command"] == IMAGE.words("ENTRYPOINT")
    assert APP.env["APP_LISTEN"] == IMAGE.env["APP_LISTEN"]
    port = int(APP.env["APP_LISTEN"].rpartition(":")[2])
    assert list(APP.ports.values()) == [port]
    assert APP.spec["readinessProbe"]["httpGet"]["port"] in APP.ports


def test_variables_of_the_pod_are_read_by_the_app_or_by_an_openai_client() -> None:
    read = set(re.findall(r'environ\.get\("(\w+)"', (EXAMPLE / "app.py").read_text()))
    assert {"APP_LISTEN", "SPECTRIE_TARGET"} <= APP.env.keys() & read
    assert APP.env.keys() - read == {"OPENAI_BASE_URL", "OPENAI_API_KEY"}


def test_grace_period_covers_the_answers_that_the_app_finishes() -> None:
    answer = re.search(r"ANSWER_S = .*, (\d+)\.0", (EXAMPLE / "app.py").read_text())
    assert answer is not None
    pause = APP.spec["lifecycle"]["preStop"]["sleep"]["seconds"]
    router = next(one for one in POD.ours if one.command == "router")
    needed = pause + int(answer[1]) + router.settings["drain_timeout"]
    assert POD.spec["terminationGracePeriodSeconds"] >= needed


def test_command_that_builds_the_image_names_its_folder() -> None:
    text = (EXAMPLE / "Dockerfile").read_text()
    (command,) = re.findall(r"docker build .*", text)
    assert (ROOT / shlex.split(command)[-1] / "Dockerfile").is_file()
