"""Commands in a root as user 65532: contained where this machine may mount, by chroot alone where it may not."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from tools.image.container import Container

__all__ = ["PREFIX", "USER", "Chroot", "enter"]

USER = 65532
PREFIX = "/opt/spectrie"
ENV = {
    # chroot is in one of the folders of system programs.
    "PATH": f"{PREFIX}/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/cache",
    "SPECTRIE_CACHE": "/cache",
    "PYTHONPATH": "/checks",
    "PYTHONDONTWRITEBYTECODE": "1",
}


class Chroot:
    """A command in a root that is its only wall; what it takes of `Container` is named alike.

    Args:
        root: The root, which gets a copy of each volume.
        folder: For its output.
        words: The command.
        volumes: Folders of this machine, by where they lie inside.
    """

    def __init__(
        self, root: Path, folder: Path, words: Sequence[str], volumes: Mapping[str, Path]
    ) -> None:
        folder.mkdir(parents=True)
        for place, volume in volumes.items():
            to = root / place.lstrip("/")
            shutil.copytree(volume, to, dirs_exist_ok=True)
            for path in (to, *to.rglob("*")):
                os.chown(path, USER, USER)
        self._log = folder / "log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                ["chroot", f"--userspec={USER}:{USER}", str(root), *words],
                env=ENV,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()

    @property
    def log(self) -> str:
        """What it wrote."""
        return self._log.read_text(encoding="utf-8", errors="replace")

    @property
    def exit_code(self) -> int | None:
        """How it ended; None while it runs."""
        return self._process.poll()

    def terminate(self) -> None:
        """Asks it to end."""
        self._process.terminate()

    def wait(self, seconds: float) -> int:
        """Its exit code, once it has ended."""
        return self._process.wait(seconds)

    def beside(self, *words: str) -> subprocess.Popen[str]:
        """Starts a program of this machine, which has the same network."""
        return subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)


def enter(
    root: Path,
    folder: Path,
    words: Sequence[str],
    *,
    volumes: Mapping[str, Path],
    is_contained: bool,
) -> Container | Chroot:
    """Starts a command.

    Args:
        root: The root.
        folder: For its output; it is not there yet.
        words: The command, found by the path of the environment in the root.
        volumes: Folders of this machine that it may write to, by where they lie inside.
        is_contained: Whether its root is read-only, and its network and processes its own.
    """
    if not is_contained:
        return Chroot(root, folder, words, volumes)
    env = [f"{name}={value}" for name, value in ENV.items()]
    config = {"User": f"{USER}:{USER}", "Env": env, "Entrypoint": []}
    return Container(config, root, folder, words, volumes=volumes)
