"""`spectrie router`: the router alone, without torch."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from spectrie.cli.flags.options import add_options
from spectrie.cli.flags.settings import Settings, resolve
from spectrie.errors import ConfigError
from spectrie.supervise.parent_watch import watch_supervisor
from spectrie.supervise.private_folder import private_folder
from spectrie.supervise.ready_line import print_ready
from spectrie.supervise.supervisor import EXIT_HOPELESS

__all__ = ["configure", "router_config", "run"]

_EPILOG = """\
Workers connect to the router's --worker-listen address. Anyone who joins there can read prompts, so
it is a private Unix socket by default, and TCP requires --worker-token-file or --tls-worker-ca.
Operators connect to --admin, a private Unix socket too; the ready line contains it.
Ctrl-C lets running requests finish; twice stops at once.

example:
  spectrie router --worker-listen unix:/tmp/spectrie.sock
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.epilog = _EPILOG
    add_options(parser, "router")


def run(args: argparse.Namespace) -> int:
    """Runs the router to its end; returns the exit code."""
    from spectrie import _core

    supervised = watch_supervisor()
    try:
        settings = resolve("router", args)
        with private_folder() as folder:
            config = router_config(settings, Path(folder))
            return _core.run_router(json.dumps(config), _announce)
    except (ConfigError, _core.RouterError) as error:
        if not supervised:
            raise ConfigError(str(error)) from error
        print(f"spectrie: {error}", file=sys.stderr)
        return EXIT_HOPELESS


def router_config(settings: Settings, private_folder: Path) -> dict[str, Any]:
    """The router's configuration; its private sockets are in `private_folder` unless set."""
    return {
        "listen": {
            "http": _address(settings.http),
            "grpc": _address(settings.grpc),
            "worker": settings.worker_listen or f"unix:{private_folder}/worker.sock",
            "metrics": _address(settings.metrics_listen),
            "admin": _address(settings.admin or f"unix:{private_folder}/admin.sock"),
        },
        "limits": _limits(settings),
        "access": {
            "api_keys_file": settings.api_keys,
            "allow_client_namespaces": settings.allow_client_namespaces,
            "worker_token_file": settings.worker_token_file,
            "admin_token_file": settings.admin_token_file,
            "allowed_hosts": list(settings.allowed_hosts),
            "open_introspection": settings.open_introspection,
            "cors_origins": list(settings.cors_origin),
        },
        "tls": {
            "cert": settings.tls_cert,
            "key": settings.tls_key,
            "client_ca": settings.tls_client_ca,
            "worker_ca": settings.tls_worker_ca,
        },
        "workers": {
            "stall_timeout_s": settings.worker_stall_timeout,
            "state_dir": _absolute(settings.state_dir),
        },
        "fleet": {
            "redis": settings.redis,
            "private_namespaces": list(settings.private_namespace),
        },
        "runtime": {"drain_s": settings.drain_timeout},
        "log": {
            "level": settings.log_level,
            "format": settings.log_format,
            "access": settings.access_log == "on",
        },
        "metrics": {"vllm_names": settings.metrics_compat == "vllm"},
        "traces": {"endpoint": settings.otlp_endpoint, "sample": settings.otlp_sample},
    }


def _limits(settings: Settings) -> dict[str, Any]:
    limits: dict[str, Any] = {
        "default_deadline_s": settings.request_timeout,
        "client_stall_timeout_s": settings.client_stall_timeout,
        "resume_window_s": settings.resume_window,
        "max_connections": settings.max_connections,
    }
    if settings.max_queue is not None:
        limits |= {"max_queued": settings.max_queue, "max_waiting": settings.max_queue}
    return limits


def _absolute(folder: str | None) -> str | None:
    return None if folder is None else str(Path(folder).absolute())


def _address(given: str | None) -> str | None:
    return None if given in (None, "off") else given


def _announce(addresses: str) -> None:
    print_ready({"role": "router", **json.loads(addresses)})
