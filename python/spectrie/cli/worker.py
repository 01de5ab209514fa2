"""`spectrie worker`: one worker for a router."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from spectrie.cli.console.logs import configure_logs
from spectrie.cli.flags.options import add_options
from spectrie.cli.flags.secret_file import read_token
from spectrie.cli.flags.settings import Settings, resolve
from spectrie.engine.options import EngineOptions
from spectrie.errors import ConfigError, ModelError
from spectrie.model.machine import require_packages
from spectrie.supervise.parent_watch import watch_supervisor
from spectrie.supervise.pulse import open_pulse
from spectrie.supervise.supervisor import EXIT_HOPELESS
from spectrie.worker.config import LinkOptions, WorkerOptions

__all__ = ["configure", "run", "worker_options"]

_EPILOG = """\
A worker loads MODEL, connects to the router and keeps trying: start both in any order.
SIGTERM lets running requests finish; a second one stops at once.

example:
  spectrie router --worker-listen unix:/tmp/spectrie.sock &
  spectrie worker smollm2-135m --router unix:/tmp/spectrie.sock
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.epilog = _EPILOG
    parser.add_argument("model", metavar="MODEL", help="folder, .gguf file, alias or Hub id")
    add_options(parser, "worker")


def run(args: argparse.Namespace) -> int:
    """Runs a worker to its end; returns the exit code."""
    supervised, pulse = watch_supervisor(), open_pulse()
    try:
        settings = resolve("worker", args)
        configure_logs(settings.log_level, settings.log_format)
        require_packages()
        options = worker_options(args.model, settings)
        from spectrie.worker.process import run_worker

        return run_worker(options, pulse)
    except (ConfigError, ModelError) as error:
        if not supervised:
            raise
        print(f"spectrie: {error}", file=sys.stderr)
        return EXIT_HOPELESS


def worker_options(model: str, settings: Settings) -> WorkerOptions:
    """The options of a worker process.

    Raises:
        ConfigError: `--router` is missing, the token file cannot be read, a certificate has no key, a
            corpus is missing, or the model has several names.
    """
    from spectrie.model.files.corpora import find_corpus

    if settings.router is None:
        raise ConfigError("--router is required: give the router's --worker-listen address")
    if (settings.tls_cert is None) != (settings.tls_key is None):
        raise ConfigError("--tls-cert and --tls-key: give both or neither")
    engine = settings.fields("model", "engine", "host")
    engine["corpora"] = tuple(str(find_corpus(corpus)) for corpus in settings.corpus)
    engine["state_dir"] = _draft_folder(settings.state_dir, settings.worker_index)
    return WorkerOptions(
        model=model,
        link=LinkOptions(
            target=settings.router,
            token=read_token("--worker-token-file", settings.worker_token_file),
            tls_ca=settings.tls_ca,
            tls_cert=settings.tls_cert,
            tls_key=settings.tls_key,
            model_name=_name(settings.served_model_name),
        ),
        engine=EngineOptions(**engine),
        health_address=None if settings.health in (None, "off") else settings.health,
        drain_s=settings.drain_timeout,
        stall_timeout_s=settings.worker_stall_timeout,
    )


def _name(names: Sequence[str]) -> str | None:
    """The name of a worker's model for clients; None is the model's own."""
    if len(names) > 1:
        raise ConfigError(f"--served-model-name: a worker has one model, given {', '.join(names)}")
    return names[0] if names else None


def _draft_folder(folder: str | None, index: int) -> str | None:
    """The folder of one worker's draft memory; a relative one is of the folder started in."""
    return None if folder is None else str(Path(folder).absolute() / "draft" / str(index))
