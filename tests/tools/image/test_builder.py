"""Dockerfiles that are carried out: stages, what they copy, how their images run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.docs.markdown import ROOT
from tools.image.base import make_base
from tools.image.builder import Builder
from tools.image.context import Context
from tools.image.layout import Layout
from tools.image.root import Failed, Root
from tools.image.settings import Settings, UnknownInstruction
from tools.kube.node.dockerfile import stages

FILE = """\
ARG BASE=tiny:1
FROM ${BASE} AS base
ENV A=1 B="two words"
RUN first \\
 && second
FROM base AS build
WORKDIR /work
USER 7:8
RUN make
COPY sent/ /made/
FROM base AS last
ARG VERSION=3
LABEL version="${VERSION}" a="$A"
COPY one.txt /place/
COPY one.txt /place/two.txt
COPY --from=build /made /taken
USER 5:5
CMD ["run"]
"""


class Recorded(Root):
    """A root that notes what would have run."""

    ran: list[tuple[str, str, str, str | None]]

    def copy_to(self, path: Path) -> Root:
        copied = Recorded(super().copy_to(path).path, self._log)
        copied.ran = self.ran
        return copied

    def run(
        self, command: str, env: Mapping[str, str], *, user: str = "0:0", folder: str = "/"
    ) -> None:
        self.ran.append((command, user, folder, env.get("B")))


@pytest.fixture
def context(tmp_path: Path) -> Path:
    folder = tmp_path / "context"
    (folder / "sent/deep").mkdir(parents=True)
    for name in ("one.txt", "secret.txt", "sent/a.txt", "sent/b.log", "sent/deep/c.txt"):
        (folder / name).write_text(name)
    (folder / ".dockerignore").write_text("*\n!one.txt\n!sent/**/*.txt\n")
    return folder


def built(
    tmp_path: Path, context: Path, text: str
) -> tuple[Layout, list[tuple[str, str, str, str | None]]]:
    file = tmp_path / "Dockerfile"
    file.write_text(text)
    ran: list[tuple[str, str, str, str | None]] = []

    def make(image: str, folder: Path, log: Path, _: Mapping[str, str]) -> Root:
        assert image == "tiny:1"
        (folder / "etc").mkdir(parents=True)
        root = Recorded(folder, log)
        root.ran = ran
        return root

    roots = tmp_path / "roots"
    roots.mkdir()
    layout = Layout(tmp_path / "layout", 5)
    Builder(file, Context(context), roots, layout, 5, lambda _: None, make).add("last")
    return layout, ran


def test_an_image_has_what_its_own_stages_copy_and_nothing_of_others(
    tmp_path: Path, context: Path
) -> None:
    layout, _ = built(tmp_path, context, FILE)
    layout.unpack("last", tmp_path / "at")
    files = {
        str(path.relative_to(tmp_path / "at")): path.read_text()
        for path in (tmp_path / "at").rglob("*")
        if path.is_file()
    }
    assert files == {
        "place/one.txt": "one.txt",
        "place/two.txt": "one.txt",
        "taken/a.txt": "sent/a.txt",
        "taken/deep/c.txt": "sent/deep/c.txt",
    }


def test_commands_run_once_as_their_stage_says(tmp_path: Path, context: Path) -> None:
    _, ran = built(tmp_path, context, FILE)
    assert ran == [
        ("first && second", "0:0", "/", "two words"),
        ("make", "7:8", "/work", "two words"),
    ]


def test_an_image_runs_as_its_last_instructions_say(tmp_path: Path, context: Path) -> None:
    config = built(tmp_path, context, FILE)[0].config("last")
    assert config["Env"][1:] == ["A=1", "B=two words"]
    assert config["Labels"] == {"version": "3", "a": "1"}
    assert (config["User"], config["Cmd"]) == ("5:5", ["run"])
    assert "WorkingDir" not in config


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("ADD a /b", "ADD"),
        ("COPY secret.txt /", "not sent"),
        ("COPY sent/b.log /", "not sent"),
        ("COPY missing.txt /", "not sent"),
        ("COPY --chown=1:1 one.txt /", "only --from"),
    ],
)
def test_what_is_not_carried_out_fails(
    tmp_path: Path, context: Path, line: str, complaint: str
) -> None:
    with pytest.raises(Failed, match=complaint):
        built(tmp_path, context, f"{FILE}{line}\n")


def test_every_instruction_of_our_dockerfile_is_known() -> None:
    settings = Settings({})
    for stage in stages(ROOT / "deploy" / "Dockerfile").values():
        for keyword, rest in stage.own:
            if keyword not in ("RUN", "COPY"):
                settings.take(keyword, rest)
    config = settings.config
    assert config["ExposedPorts"].keys() == {"8000/tcp", "50051/tcp"}
    health = config["Healthcheck"]
    assert health["Test"][0] == "CMD" and health["Test"][-1].endswith("health.py")
    assert (health["Interval"], health["StartPeriod"]) == (10 * 10**9, 600 * 10**9)
    assert config["Labels"]["org.opencontainers.image.version"]
    with pytest.raises(UnknownInstruction):
        settings.take("ONBUILD", "RUN x")


def test_a_base_that_is_no_slim_debian_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Failed, match="alpine"):
        make_base("alpine:3", tmp_path / "root", tmp_path / "log", {})


def test_a_command_that_fails_shows_its_last_lines(tmp_path: Path) -> None:
    root = Root(tmp_path, tmp_path / "log")
    root.command("echo", "before")
    with pytest.raises(Failed, match="exit code 3\nthe reason") as found:
        root.command("sh", "-c", "echo the reason >&2; exit 3")
    assert "before" not in str(found.value)
