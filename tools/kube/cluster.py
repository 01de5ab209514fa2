"""A cluster without nodes: etcd, API server, controllers, scheduler, and kwok, which says that pods run.

All listen on 127.0.0.1, write to one temporary folder, and end with it.
"""

from __future__ import annotations

import base64
import json
import os
import secrets
import signal
import socket
import subprocess
from pathlib import Path
from typing import Any, Self

from tools.kube.api import Api

__all__ = ["Cluster", "folder_of_programs", "program"]

_END_S = 10.0


def folder_of_programs() -> Path:
    """Where build.sh puts programs, custom resources and kwok's stages."""
    given = os.environ.get("SPECTRIE_KUBE")
    return Path(given) if given else Path.home() / ".cache" / "spectrie" / "kube"


def program(name: str) -> Path:
    """Where a program that build.sh makes lies."""
    return folder_of_programs() / "bin" / name


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


class Cluster:
    """The processes.

    Args:
        folder: For what they write.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._token = secrets.token_hex(16)
        self._port = _free_port()
        self.api = Api(self._port, self._token)

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True)
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        # Those that ask the API server first, the data last.
        for name in reversed(self._processes):
            process = self._processes[name]
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(_END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _run(self, name: str, *arguments: str) -> None:
        with (self._folder / f"{name}.log").open("wb") as log:
            self._processes[name] = subprocess.Popen(
                [str(program(name)), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self._folder,
                env={"HOME": str(self._folder), "PATH": os.environ["PATH"]},
            )

    def _wait(self, what: str, path: str) -> None:
        """Returns once the API server answers at a path."""

        def is_there() -> bool:
            for name, process in self._processes.items():
                if process.poll() is not None:
                    raise RuntimeError(f"{name} ended: {self._log(name)}")
            return bool(self.api.call("GET", path))

        self.api.wait(what, is_there, lambda: self._log(next(reversed(self._processes))))

    def _log(self, name: str) -> str:
        log = (self._folder / f"{name}.log").read_text(encoding="utf-8", errors="replace")
        return f"...{log[-2000:]}"

    def _start(self) -> None:
        client, peer = (f"http://127.0.0.1:{_free_port()}" for _ in range(2))
        self._run(
            "etcd",
            *("--data-dir", str(self._folder / "etcd"), "--unsafe-no-fsync"),
            *("--listen-client-urls", client, "--advertise-client-urls", client),
            *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer),
            *("--initial-cluster", f"default={peer}"),
        )
        key = self._folder / "accounts.key"
        subprocess.run(
            ["openssl", "genrsa", "-out", str(key), "2048"], check=True, capture_output=True
        )
        tokens = self._folder / "tokens.csv"
        tokens.write_text(f"{self._token},admin,admin,system:masters\n", encoding="utf-8")
        self._run(
            "kube-apiserver",
            *(f"--etcd-servers={client}", "--bind-address=127.0.0.1"),
            *(f"--secure-port={self._port}", f"--cert-dir={self._folder / 'certificates'}"),
            *(f"--token-auth-file={tokens}", "--authorization-mode=RBAC"),
            *(f"--service-account-key-file={key}", f"--service-account-signing-key-file={key}"),
            "--service-account-issuer=https://localhost",
            # As clusters do: what is privileged is for a namespace's level to refuse.
            "--allow-privileged=true",
            *("--service-cluster-ip-range=10.0.0.0/24", "--advertise-address=127.0.0.1"),
        )
        self._wait("API server", "/readyz")
        config = self._folder / "config"
        config.write_text(json.dumps(self._config()), encoding="utf-8")
        quiet = (f"--kubeconfig={config}", "--leader-elect=false", "--bind-address=127.0.0.1")
        self._run(
            "kube-controller-manager",
            *(*quiet, f"--secure-port={_free_port()}"),
            f"--service-account-private-key-file={key}",
        )
        self._run("kube-scheduler", *quiet, f"--secure-port={_free_port()}")
        stages = sorted((folder_of_programs() / "stages").glob("*.yaml"))
        self._run(
            "kwok",
            *(f"--kubeconfig={config}", "--manage-all-nodes=true"),
            f"--server-address=127.0.0.1:{_free_port()}",
            *(f"--config={stage}" for stage in stages),
        )
        self._wait("controllers", "/api/v1/namespaces/default/serviceaccounts/default")

    def _config(self) -> dict[str, Any]:
        certificate = (self._folder / "certificates" / "apiserver.crt").read_bytes()
        server = {
            "server": f"https://127.0.0.1:{self._port}",
            "certificate-authority-data": base64.b64encode(certificate).decode(),
            "tls-server-name": "kubernetes",
        }
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "one", "cluster": server}],
            "users": [{"name": "admin", "user": {"token": self._token}}],
            "contexts": [{"name": "one", "context": {"cluster": "one", "user": "admin"}}],
            "current-context": "one",
        }
