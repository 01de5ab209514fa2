"""A node: containers as processes of this machine, each pod with an address and a network of its own.

What a container is given is what its manifest says: its user, a root that it cannot write to, its volumes at
their paths, its ports at the pod's address, no capabilities. Linux's namespaces do it, so root is needed.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from tools.kube.node.images import ROOT, image_of
from tools.kube.node.pods import Container, Pod, Probe, Volume
from tools.kube.node.probes import ask

__all__ = ["Box", "Network", "missing"]

_TOOLS = ("ip", "unshare", "chroot", "setpriv", "mount")
_SYSTEM = ("usr", "bin", "lib", "lib64", "sbin")
_ETC = ("ld.so.cache", "ld.so.conf", "nsswitch.conf", "passwd", "group", "ssl", "localtime")
_DEVICES = ("null", "zero", "full", "random", "urandom")
_ENTER = Path(__file__).with_name("enter.sh")
_NETWORK = "10.213.77"


def missing() -> str | None:
    """What this machine lacks to be a node; None where it lacks nothing."""
    if os.geteuid() != 0:
        return "root, which makes networks and mounts of a pod's own"
    lacks = [tool for tool in _TOOLS if shutil.which(tool) is None]
    return f"{', '.join(lacks)} (packages iproute2, util-linux)" if lacks else None


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True)


class Network:
    """A bridge with an address for this machine, and one for each pod; gone when it is left."""

    def __init__(self) -> None:
        self._bridge = f"kube{os.getpid()}"
        self._names: list[str] = []

    def __enter__(self) -> Self:
        _run("ip", "link", "add", self._bridge, "type", "bridge")
        _run("ip", "addr", "add", f"{_NETWORK}.1/24", "dev", self._bridge)
        _run("ip", "link", "set", self._bridge, "up")
        return self

    def __exit__(self, *_: object) -> None:
        for name in self._names:
            subprocess.run(["ip", "netns", "del", name], check=False)
        subprocess.run(["ip", "link", "del", self._bridge], check=False)

    def join(self) -> tuple[str, str]:
        """A network for one more pod: its name and the pod's address."""
        number = len(self._names) + 2
        name, address = f"{self._bridge}-{number}", f"{_NETWORK}.{number}"
        _run("ip", "netns", "add", name)
        self._names.append(name)
        here, there = f"k{os.getpid()}v{number}", "eth0"
        _run("ip", "link", "add", here, "type", "veth", "peer", "name", there, "netns", name)
        _run("ip", "link", "set", here, "master", self._bridge, "up")
        _run("ip", "-n", name, "addr", "add", f"{address}/24", "dev", there)
        _run("ip", "-n", name, "link", "set", there, "up")
        _run("ip", "-n", name, "link", "set", "lo", "up")
        return name, address


class _Contained:
    """The process of a container, first of a session of its own."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def poll(self) -> int | None:
        return self._process.poll()

    def terminate(self) -> None:
        self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        if self._process.poll() is None:
            # What it started ends with it, as in a container.
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


class Box:
    """The node of one pod.

    Args:
        pod: The pod.
        folder: For its volumes and the output of its containers.
        network: It gets an address there.
        secrets: Files of each secret, by key.
        claims: The folder that each claim stands for.
        hosts: Names that its containers find, with their addresses.
    """

    def __init__(
        self,
        pod: Pod,
        folder: Path,
        network: Network,
        *,
        secrets: Mapping[str, Mapping[str, bytes]],
        claims: Mapping[str, Path],
        hosts: Mapping[str, str],
    ) -> None:
        self.pod, self._folder = pod, folder
        self._secrets, self._claims = secrets, claims
        self._namespace, self.address = network.join()
        folder.mkdir(parents=True)
        lines = [f"127.0.0.1 localhost\n{self.address} {pod.name}-0\n"]
        lines += [f"{address} {name}\n" for name, address in hosts.items()]
        (folder / "hosts").write_text("".join(lines), encoding="utf-8")
        (folder / "resolv.conf").touch()
        self._volumes = {name: self._volume(one) for name, one in pod.volumes.items()}

    def _volume(self, volume: Volume) -> Path:
        if volume.kind == "claim":
            return self._claims[volume.source]
        at = self._folder / "volumes" / volume.name
        at.mkdir(parents=True)
        if volume.kind == "secret":
            for key, content in self._secrets[volume.source].items():
                (at / key).write_bytes(content)
        user = max(one.user for one in self.pod.containers)
        for path in (at, *at.iterdir()):
            os.chown(path, user, user)
            path.chmod(0o770 if path.is_dir() else 0o440)
        return at

    def start(self, container: Container) -> _Contained:
        """Starts a container."""
        image = image_of(container.image)
        env = image.env | dict(container.env)
        for name, (secret, key) in container.secrets.items():
            env[name] = self._secrets[secret][key].decode()
        if "PYTHONPATH" in os.environ:  # the checkout whose environment is another one's
            env["PYTHONPATH"] = os.environ["PYTHONPATH"]
        command = container.command or image.command
        arguments = container.args or (() if container.command else image.arguments)
        root = self._folder / f"{container.name}-root"
        root.mkdir()
        binds = self._binds(container, image.files)
        mounts = self._folder / f"{container.name}.mounts"
        mounts.write_text(
            "".join(f"{how}\t{source}\t{to}\n" for source, to, how in binds), encoding="utf-8"
        )
        enter = ["ip", "netns", "exec", self._namespace, "unshare", "--mount", "sh", str(_ENTER)]
        how = "ro" if container.is_root_read_only else "rw"
        with (self._folder / f"{container.name}.log").open("wb") as log:
            process = subprocess.Popen(
                [*enter, str(root), str(mounts), str(container.user), how, *command, *arguments],
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return _Contained(process)

    def _binds(
        self, container: Container, files: Mapping[str, Path]
    ) -> list[tuple[Path, str, str]]:
        """What lies where: source, place, and `ro` or `rw`."""
        found = [(Path("/") / name, f"/{name}", "ro") for name in _SYSTEM]
        found += [(Path("/etc") / name, f"/etc/{name}", "ro") for name in _ETC]
        found += [(Path("/dev") / name, f"/dev/{name}", "rw") for name in _DEVICES]
        found += [(self._folder / name, f"/etc/{name}", "ro") for name in ("hosts", "resolv.conf")]
        found += [(Path("/proc"), "/proc", "rw"), (Path("/sys"), "/sys", "ro")]
        found += [(path.resolve(), to, "ro") for to, path in files.items()]
        for mount in container.mounts:
            source = self._volumes[mount.volume]
            found.append((source, mount.path, "ro" if mount.is_read_only else "rw"))
        # Where the environment's files point to: the interpreter, and packages installed as they lie. They come
        # last, since a checkout may lie in /tmp.
        lasting = {Path(sys.base_prefix).resolve(), ROOT, Path(sys.prefix).resolve()}
        found += [(path, str(path), "ro") for path in sorted(lasting)]
        return [one for one in found if one[0].exists()]

    def ask(self, container: Container, probe: Probe) -> bool:
        """Whether a container answers a probe."""
        return ask(self.address, probe)

    def log(self, container: str) -> str:
        """What a container wrote."""
        path = self._folder / f"{container}.log"
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
