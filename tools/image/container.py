"""Runs an image of a layout as a container does: its own root, read-only, its own network and processes, its user."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from tools.kube.node.box import missing

__all__ = ["Container", "undecided"]

_ENTER = Path(__file__).resolve().parents[1] / "kube" / "node" / "enter.sh"
_SPACES = ("--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc")
_DEVICES = ("null", "zero", "full", "random", "urandom")
_GIVEN = ("dev", "proc", "run", "sys", "tmp")


def undecided() -> str | None:
    """Why this machine can run no container; None where it can."""
    lacks = missing()
    if lacks is not None:
        return f"this machine lacks {lacks}"
    trial = "mount -t tmpfs tmpfs /mnt && mount -o remount,ro /mnt && ip link set lo up"
    done = subprocess.run(["unshare", *_SPACES, "sh", "-c", trial], capture_output=True, text=True)
    return None if done.returncode == 0 else f"mounting is refused here: {done.stderr.strip()}"


class Container:
    """A container, from the start on; killed when it is left.

    It has the loopback network alone. Its root cannot be written to, but for `/tmp` and volumes.

    Args:
        config: How the image runs, as a layout has it: `User`, `Env`, `Entrypoint`, `Cmd`, `Healthcheck`.
        root: Its unpacked layers.
        folder: For its `/tmp`, its output, and what else it is given.
        arguments: After the entry point, instead of the image's.
        env: Variables beside the image's.
        volumes: Folders of this machine, by where they lie inside. They become its user's.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        root: Path,
        folder: Path,
        arguments: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        volumes: Mapping[str, Path] | None = None,
    ) -> None:
        self.config = config
        self._user = str(self.config["User"]).partition(":")[0]
        pairs = (one.partition("=") for one in self.config["Env"])
        self._env = {key: value for key, _, value in pairs} | dict(env or {})
        self._log = folder / "log"
        folder.mkdir(parents=True, exist_ok=True)
        mounts = folder / "mounts"
        mounts.write_text(self._mounts(root, folder, volumes or {}), encoding="utf-8")
        empty = folder / "root"
        empty.mkdir()
        words = [str(empty), str(mounts), self._user, "ro"]
        words += [*self.config["Entrypoint"], *(arguments or self.config.get("Cmd", []))]
        up = f'ip link set lo up; exec sh {_ENTER} "$@"'
        with self._log.open("wb") as log:
            self._outer = subprocess.Popen(
                ["unshare", *_SPACES, "sh", "-c", up, "sh", *words],
                # What a container does not set, its tools here are still found by.
                env={"PATH": os.environ["PATH"]} | self._env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._outer.poll() is None:
            # With its first process, all of its others end.
            self._outer.kill()
        self._outer.wait()

    @property
    def log(self) -> str:
        """What it wrote."""
        return self._log.read_text(encoding="utf-8", errors="replace")

    @property
    def exit_code(self) -> int | None:
        """How it ended; None while it runs."""
        return self._outer.poll()

    @property
    def pid(self) -> int:
        """Its first process, as this machine numbers it."""
        outer = self._outer.pid
        children = Path(f"/proc/{outer}/task/{outer}/children").read_text().split()
        return int(children[0])

    def terminate(self) -> None:
        """Asks its first process to end."""
        os.kill(self.pid, signal.SIGTERM)

    def wait(self, seconds: float) -> int:
        """Its exit code, once it has ended.

        Raises:
            subprocess.TimeoutExpired: It still runs.
        """
        return self._outer.wait(seconds)

    def execute(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Runs a command inside, as its user and with its variables: `docker exec`."""
        as_user = ["setpriv", "--reuid", self._user, "--regid", self._user, "--clear-groups"]
        settings = [f"{name}={value}" for name, value in self._env.items()]
        spaces = ["--mount", "--net", "--pid", "--root", "--wd"]
        return subprocess.run(
            [
                "nsenter",
                "--target",
                str(self.pid),
                *spaces,
                *as_user,
                "env",
                "-i",
                *settings,
                *words,
            ],
            capture_output=True,
            text=True,
        )

    def health(self) -> int:
        """The exit code of the image's health command; 1 once it has ended."""
        kind, *words = self.config["Healthcheck"]["Test"]
        assert kind == "CMD"
        try:
            return self.execute(*words).returncode
        except (FileNotFoundError, IndexError):
            return 1

    def beside(self, *words: str) -> subprocess.Popen[str]:
        """Starts a program of this machine in its network."""
        return subprocess.Popen(
            ["nsenter", "--target", str(self.pid), "--net", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )

    def _mounts(self, root: Path, folder: Path, volumes: Mapping[str, Path]) -> str:
        """What lies where, in the form of enter.sh."""
        found = [(path, f"/{path.name}", "ro") for path in sorted(root.iterdir())]
        found = [one for one in found if one[1].strip("/") not in _GIVEN]
        found += [(Path("/dev") / name, f"/dev/{name}", "rw") for name in _DEVICES]
        found += [(Path("/proc"), "/proc", "rw"), (Path("/sys"), "/sys", "ro")]
        for name in ("tmp", "dev/shm"):
            given = folder / name
            given.mkdir(parents=True)
            given.chmod(0o1777)
            found.append((given, f"/{name}", "rw"))
        (folder / "hosts").write_text("127.0.0.1 localhost\n", encoding="utf-8")
        found.append((folder / "hosts", "/etc/hosts", "ro"))
        for place, volume in volumes.items():
            for path in (volume, *volume.rglob("*")):
                os.chown(path, int(self._user), int(self._user))
            found.append((volume, place, "rw"))
        return "".join(f"{how}\t{source}\t{to}\n" for source, to, how in found)
