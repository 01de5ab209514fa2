"""`spectrie serve`: a router and its workers as supervised processes."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from spectrie.cli.console.logs import configure_logs
from spectrie.cli.console.terminal import print_progress
from spectrie.cli.flags.options import add_options, option, options_of
from spectrie.cli.flags.settings import Settings, resolve
from spectrie.cli.serve.readiness import wait_served
from spectrie.cli.serve.served import Served, check_several, served_models, state_folder
from spectrie.cli.serve.summary import print_summary
from spectrie.errors import ConfigError
from spectrie.model.machine import require_packages
from spectrie.supervise.private_folder import private_folder
from spectrie.supervise.supervisor import Program, Supervisor

__all__ = ["configure", "run"]

KV_SHARE = 0.4
"""Of the free memory, what the key/value caches of all workers take together."""

_EPILOG = """\
Start-up ends with the addresses, a curl line to try, and a line `spectrie ready {json}` on stdout
for scripts. Port 0 picks a free port. Ctrl-C lets running requests finish; twice stops at once.

examples:
  spectrie serve smollm2-135m
  spectrie serve ./my-model --http 0.0.0.0:8000 --workers 2 --api-keys keys.txt
  spectrie serve smollm2-135m ./my-model --served-model-name mine=./my-model
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.epilog = _EPILOG
    parser.add_argument(
        "model", metavar="MODEL", nargs="+", help="folder, .gguf file, alias or Hub id; or several"
    )
    add_options(parser, "serve")


def run(args: argparse.Namespace) -> int:
    """Serves models until Ctrl-C; returns the exit code, 0 after a drain."""
    settings = resolve("serve", args)
    configure_logs(settings.log_level, settings.log_format)
    require_packages()
    from spectrie.model import resolve as resolve_model

    _check_tls(settings)
    if len(args.model) > 1:
        check_several(settings)

    def found(model: str) -> Served:
        resolved = resolve_model(model, print_progress)
        return Served(resolved.name, resolved.folder)

    models = served_models(args.model, settings.served_model_name, found)
    with (
        private_folder() as folder,
        Supervisor(drain_s=settings.drain_timeout) as supervisor,
    ):
        listen = settings.worker_listen or f"unix:{folder}/worker.sock"
        admin = settings.admin or f"unix:{folder}/admin.sock"
        supervisor.start(_router(settings, listen, admin))
        ready = supervisor.wait_ready()
        if isinstance(ready, int):
            return ready
        target = ready[0].get("worker") or listen
        for program in _workers(settings, models, target):
            supervisor.start(program)
        ready = supervisor.wait_ready()
        if isinstance(ready, int):
            return ready
        names = [model.name for model in models]
        wait_served(ready[0], names)
        print_summary(settings, names, ready[0], ready[1:])
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


def _workers(settings: Settings, models: Sequence[Served], target: str) -> Iterator[Program]:
    """The workers of all models, those of the first model first."""
    from spectrie.model.files.corpora import find_corpus

    corpora = [str(find_corpus(corpus)) for corpus in settings.corpus]
    share = _share(settings, settings.workers * len(models))
    for place, model in enumerate(models):
        for index in range(settings.workers):
            number = place * settings.workers + index
            fixed: dict[str, object] = {
                "router": target,
                "served_model_name": [model.name],
                "health": _health_address(settings.health, number),
                "worker_index": index,
                "corpus": corpora,
                "state_dir": state_folder(settings.state_dir, model.name, len(models)),
                **share,
            }
            yield _worker(settings, model, fixed, number)


def _worker(settings: Settings, model: Served, fixed: Mapping[str, object], number: int) -> Program:
    environment: dict[str, str] = {}
    threads = fixed.get("threads") or settings.threads
    if threads:
        environment["OMP_NUM_THREADS"] = str(threads)

    def command(facts: Mapping[str, Any] | None) -> Sequence[str]:
        return [*_spectrie(), "worker", str(model.folder), *_flags("worker", settings, fixed)]

    return Program(
        f"worker-{number}", command, environment, settings.worker_stall_timeout, model.name
    )


def _share(settings: Settings, num_workers: int) -> dict[str, object]:
    """What one of several workers gets of the cores and the memory where nothing was asked for."""
    from spectrie.model.machine import available_memory_bytes, num_cores

    share: dict[str, object] = {}
    if num_workers == 1:
        return share
    if settings.threads is None:
        share["threads"] = max(1, num_cores() // (num_workers * settings.tensor_parallel))
    if settings.kv_memory is None:
        share["kv_memory"] = int(available_memory_bytes() * KV_SHARE) // num_workers
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
