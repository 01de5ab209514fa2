"""A root: a folder in which commands run as if it were the whole file system."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

__all__ = ["Failed", "Root", "missing"]

_TOOLS = ("debootstrap", "unshare", "chroot", "mount", "cp")
_INSIDE = Path(__file__).with_name("inside.sh")
_SHOWN_LINES = 15
# What brings this machine to its network brings a command in a root there too.
_NETWORK = re.compile(
    r"(https?|no|all)_proxy|pip_(extra_)?index_url|uv_index\w*|uv_default_index", re.I
)


class Failed(Exception):
    """A command that builds an image failed; the message ends with its last lines."""


def missing() -> str | None:
    """What this machine lacks to build images; None where it lacks nothing."""
    if os.geteuid() != 0:
        return "root, which mounts and enters the roots of images"
    lacks = [tool for tool in _TOOLS if shutil.which(tool) is None]
    return f"{', '.join(lacks)} (Debian packages debootstrap, util-linux)" if lacks else None


class Root:
    """A root.

    Args:
        path: Its folder.
        log: Gets what commands print.
    """

    def __init__(self, path: Path, log: Path) -> None:
        self.path, self._log = path, log

    def copy_to(self, path: Path) -> Root:
        """A root of its own with the same files."""
        self.command("cp", "-a", "--reflink=auto", str(self.path), str(path))
        return Root(path, self._log)

    def run(
        self,
        command: str,
        env: Mapping[str, str],
        *,
        user: str = "0:0",
        folder: str = "/",
    ) -> None:
        """Runs a shell command inside.

        Args:
            command: For `/bin/sh`.
            env: Its variables; those that reach the network are added.
            user: Numbers of user and group.
            folder: Where it runs.

        Raises:
            Failed: It ended with another exit code than 0.
        """
        outer = {name: value for name, value in os.environ.items() if _NETWORK.fullmatch(name)}
        words = ["unshare", "--mount", "sh", str(_INSIDE), str(self.path), user, folder, command]
        settings = [f"{name}={value}" for name, value in {**outer, **env}.items()]
        self.command("env", "-i", *settings, *words)

    def command(self, *words: str) -> None:
        """Runs a command of this machine.

        Raises:
            Failed: It ended with another exit code than 0.
        """
        with self._log.open("ab") as log:
            at = log.tell()
            done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        if done.returncode != 0:
            with self._log.open("rb") as log:
                log.seek(at)
                lines = log.read().decode(errors="replace").splitlines()
            last = "\n".join(lines[-_SHOWN_LINES:])
            raise Failed(f"{words[-1]}: exit code {done.returncode}\n{last}")

    def write(self, name: str, text: str) -> None:
        """Writes a file inside, and the folders that it needs."""
        path = self.path / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
