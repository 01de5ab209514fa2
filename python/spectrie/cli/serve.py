"""`spectrie serve`: a router and its workers as supervised processes."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import tempfile
import time
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from spectrie.cli.console.logs import configure_logs
from spectrie.cli.console.terminal import print_progress
from spectrie.cli.flags.options import add_options, option, options_of
from spectrie.cli.flags.settings import Settings, resolve
from spectrie.errors import ConfigError
from spectrie.model.machine import require_packages
from spectrie.supervise.ready_line import print_ready
from spectrie.supervise.supervisor import Program, Supervisor
from spectrie.version import __version__

__all__ = ["configure", "run"]

SERVED_S = 30.0

KV_SHARE = 0.4
"""Of the free memory, what the key/value caches of all workers take together."""

_EPILOG = """\
Start-up ends with the addresses, a curl line to try, and a line `spectrie ready {json}` on stdout
for scripts. Port 0 picks a free port. Ctrl-C lets running requests finish; twice stops at once.

examples:
  spectrie serve smollm2-135m
  spectrie serve ./my-model --http 0.0.0.0:8000 --workers 2 --api-keys keys.txt
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.epilog = _EPILOG
    parser.add_argument("model", metavar="MODEL", help="folder, .gguf file, alias or Hub id")
    add_options(parser, "serve")


def run(args: argparse.Namespace) -> int:
    """Serves a model until Ctrl-C; returns the exit code, 0 after a drain."""
    settings = resolve("serve", args)
    configure_logs(settings.log_level, settings.log_format)
    require_packages()
    from spectrie.model import resolve as resolve_model

    _check_tls(settings)
    resolved = resolve_model(args.model, print_progress)
    name = settings.served_model_name or resolved.name
    with (
        tempfile.TemporaryDirectory(prefix="spectrie-") as folder,
        Supervisor(drain_s=settings.drain_timeout) as supervisor,
    ):
        listen = settings.worker_listen or f"unix:{folder}/worker.sock"
        admin = settings.admin or f"unix:{folder}/admin.sock"
        supervisor.start(_router(settings, listen, admin))
        ready = supervisor.wait_ready()
        if isinstance(ready, int):
            return ready
        target = ready[0].get("worker") or listen
        for index in range(settings.workers):
            supervisor.start(_worker(settings, resolved.folder, name, target, index))
        ready = supervisor.wait_ready()
        if isinstance(ready, int):
            return ready
        _wait_served(ready[0])
        _print_summary(settings, name, ready[0], ready[1:])
        return supervisor.run()


def _check_tls(settings: Settings) -> None:
    """Refuses workers that could not dial their router.

    Raises:
        ConfigError: They dial a TCP address by TLS, and no authority is named.
    """
    listen = settings.worker_listen or ""
    if settings.tls_cert and listen and not listen.startswith("unix:") and not settings.tls_ca:
        raise ConfigError(
            "--worker-listen on TCP with --tls-cert requires --tls-ca for the workers, or listen on"
            " unix:PATH"
        )


def _router(settings: Settings, listen: str, admin: str) -> Program:
    def command(facts: Mapping[str, Any] | None) -> Sequence[str]:
        # Its address may hold a password, and others of this machine see a command line.
        fixed: dict[str, object] = {"worker_listen": listen, "admin": admin, "redis": None}
        if settings.tls_cert and settings.metrics_listen in (None, "off"):
            # Where this process asks whether the model is served; it may have no certificate.
            fixed["metrics_listen"] = "127.0.0.1:0"
        for key in ("http", "grpc", "metrics", "admin"):
            # A restart takes the ports that the first start was given.
            if facts and facts.get(key):
                fixed["metrics_listen" if key == "metrics" else key] = facts[key]
        return [*_spectrie(), "router", *_flags("router", settings, fixed)]

    environment = {option("redis").variable: settings.redis} if settings.redis else {}
    return Program("router", command, environment)


def _worker(settings: Settings, folder: Path, name: str, target: str, index: int) -> Program:
    from spectrie.model.files.corpora import find_corpus

    fixed: dict[str, object] = {
        "router": target,
        "served_model_name": name,
        "health": _health_address(settings.health, index),
        "worker_index": index,
        "corpus": [str(find_corpus(corpus)) for corpus in settings.corpus],
    }
    environment: dict[str, str] = {}
    if settings.workers > 1:
        fixed |= _share(settings)
    threads = fixed.get("threads") or settings.threads
    if threads:
        environment["OMP_NUM_THREADS"] = str(threads)

    def command(facts: Mapping[str, Any] | None) -> Sequence[str]:
        return [*_spectrie(), "worker", str(folder), *_flags("worker", settings, fixed)]

    return Program(f"worker-{index}", command, environment, settings.worker_stall_timeout)


def _share(settings: Settings) -> dict[str, object]:
    """What one of several workers gets of the cores and the memory where nothing was asked for."""
    from spectrie.model.machine import available_memory_bytes, num_cores

    share: dict[str, object] = {}
    if settings.threads is None:
        share["threads"] = max(1, num_cores() // (settings.workers * settings.tensor_parallel))
    if settings.kv_memory is None:
        share["kv_memory"] = int(available_memory_bytes() * KV_SHARE) // settings.workers
    return share


def _spectrie() -> list[str]:
    return [sys.executable, "-m", "spectrie"]


def _flags(command: str, settings: Settings, fixed: Mapping[str, object]) -> list[str]:
    """The flags that give a child the values of `settings`, those of `fixed` first."""
    flags: list[str] = []
    for one in options_of(command):
        value: Any = fixed.get(one.key, settings.get(one.key))
        if value is None:
            continue
        if one.kind.is_flag:
            flags += [one.flag] if value else []
        elif one.repeated:
            flags += [f"{one.flag}={item}" for item in value]
        else:
            flags.append(f"{one.flag}={value}")
    return flags


def _health_address(address: str | None, index: int) -> str | None:
    """Worker `index` answers at the given port plus its index, or at `PATH.index`."""
    if address in (None, "off") or index == 0:
        return address
    if address.startswith("unix:"):
        return f"{address}.{index}"
    host, _, port = address.rpartition(":")
    if int(port) + index > 65535:
        raise ConfigError(f"--health {address}: no port is left for worker {index}")
    return f"{host}:{int(port) + index if int(port) else 0}"


def _wait_served(router: Mapping[str, Any]) -> None:
    """Waits until the router has read the tokenizer that the first worker brought."""
    address = router.get("metrics") or router.get("http")
    if not address:
        return
    # A proxy of the environment has no way to this machine's own addresses.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    deadline = time.monotonic() + SERVED_S
    while time.monotonic() < deadline:
        try:
            with opener.open(f"http://{address}/readyz", timeout=5):
                return
        except OSError:
            time.sleep(0.05)


def _print_summary(
    settings: Settings, name: str, router: Mapping[str, Any], workers: Sequence[Mapping[str, Any]]
) -> None:
    first = workers[0]
    http = router.get("http")
    scheme = "https" if settings.tls_cert else "http"
    lines = [("serving", f"{name}, spectrie {__version__}")]
    if http:
        lines.append(("OpenAI API", f"{scheme}://{http}/v1"))
    if router.get("grpc"):
        lines.append(("gRPC", str(router["grpc"])))
    lines += [
        ("workers", _workers(workers)),
        ("context", f"{first['max_context']} tokens, {first['max_running']} requests at a time"),
        ("cache", f"{_mib(first['kv_bytes'])} per worker, for {first['kv_tokens']} tokens"),
        ("draft memory", f"{_mib(first['memory_bytes'])} per worker"),
        ("speculation", _speculation(first)),
    ]
    if first.get("drafter"):
        lines.append(("drafter", str(first["drafter"])))
    if first["corpora"]:
        lines.append(("corpora", ", ".join(first["corpora"])))
    if settings.state_dir:
        every = f"every {settings.snapshot_every:g} s and " if settings.snapshot_every else ""
        lines.append(("state", f"{settings.state_dir}, written {every}at the end"))
    if router.get("admin"):
        lines.append(("operators", f"spectrie memory list --server {router['admin']}"))
    if http:
        keyed = settings.api_keys is not None
        lines.append(("try", _curl(f"{scheme}://{http}", name, keyed)))
    for title, content in lines:
        print(f"  {title:<13} {content}")
    print("  Ctrl-C lets running requests finish; twice stops at once", flush=True)
    print_ready(
        {
            "role": "serve",
            "pid": os.getpid(),
            "model": name,
            "http": router.get("http"),
            "grpc": router.get("grpc"),
            "metrics": router.get("metrics"),
            "admin": router.get("admin"),
            "workers": list(workers),
        }
    )


def _workers(workers: Sequence[Mapping[str, Any]]) -> str:
    first = workers[0]
    ranks = f"{first['ranks']} processes of " if first["ranks"] > 1 else ""
    return f"{len(workers)}, {ranks}{first['threads']} threads each, {first['dtype']}"


def _mib(num_bytes: int) -> str:
    return f"{num_bytes / (1 << 20):.0f} MiB"


def _speculation(worker: Mapping[str, Any]) -> str:
    mode = worker["speculation"]
    if mode == "off":
        return "off"
    sources = ["prediction", "request", "shared"]
    sources += ["corpus"] if worker["corpora"] else []
    sources += ["recycled"] if worker["recycle"] != "off" else []
    sources += ["bigrams"] if worker["bigrams"] != "off" else []
    return (
        f"{mode}, at most {worker['max_draft_tokens']} draft tokens a step; "
        f"sources: {', '.join(sources)}"
    )


def _curl(server: str, name: str, keyed: bool) -> str:
    body = f'{{"model": "{name}", "messages": [{{"role": "user", "content": "Hello!"}}]}}'
    key = " -H 'authorization: Bearer KEY'" if keyed else ""
    url = f"{server}/v1/chat/completions"
    return f"curl {url}{key} -H 'content-type: application/json' -d {shlex.quote(body)}"
