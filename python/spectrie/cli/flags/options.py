"""The one table of options: flag, environment variable, configuration key, default and help.

All names derive from the key: `max_context` is the flag `--max-context`, the environment variable
`SPECTRIE_MAX_CONTEXT` and the key `max_context` of the `--config` file.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Any

from spectrie.cli.flags import values
from spectrie.cli.flags.values import Kind
from spectrie.engine.config import EngineOptions

__all__ = ["TABLE", "Option", "add_options", "options_of"]

_SERVER = ("serve", "router")
_RUNNER = ("serve", "worker", "generate", "demo")
_ENGINE = ("serve", "worker")
_PROCESS = ("serve", "router", "worker")


@dataclass(frozen=True, slots=True)
class Option:
    """One option of one or several commands.

    Attributes:
        key: Its name in a configuration file; flag and variable derive from it.
        kind: How its text is read.
        default: The value when nothing sets it; None is shown as `auto` or `none`.
        help: One line for the user.
        commands: The commands that know it.
        repeated: Whether it may be given several times (a list in a file, commas in a variable).
        shown: How help shows the default, when not as `default` itself.
    """

    key: str
    kind: Kind
    default: Any
    help: str
    commands: tuple[str, ...]
    repeated: bool = False
    shown: str | None = None

    @property
    def flag(self) -> str:
        """The command-line flag, such as `--max-context`."""
        return "--" + self.key.replace("_", "-")

    @property
    def variable(self) -> str:
        """The environment variable, such as `SPECTRIE_MAX_CONTEXT`."""
        return "SPECTRIE_" + self.key.upper()

    @property
    def default_text(self) -> str:
        """The default as help prints it."""
        if self.shown is not None:
            return self.shown
        if self.default is None or self.default == ():
            return "none"
        if isinstance(self.default, bool):
            return str(self.default).lower()
        return str(self.default)


TABLE: tuple[Option, ...] = (
    # Addresses
    Option(
        "http",
        values.address(off=True),
        "127.0.0.1:8000",
        "OpenAI-compatible HTTP address",
        _SERVER,
    ),
    Option("grpc", values.address(off=True), "127.0.0.1:50051", "gRPC address", _SERVER),
    Option(
        "worker_listen",
        values.address(),
        None,
        "where workers connect; others may not reach it",
        _SERVER,
        shown="a private Unix socket",
    ),
    Option(
        "worker_token_file",
        values.named("FILE"),
        None,
        "secret that workers on TCP must show",
        _PROCESS,
    ),
    Option(
        "admin",
        values.address(off=True),
        None,
        "operators' gRPC address: corpora, namespaces, snapshots",
        _SERVER,
        shown="a private Unix socket",
    ),
    Option(
        "admin_token_file",
        values.named("FILE"),
        None,
        "secret that operators must show; needed where other machines reach --admin",
        _SERVER,
    ),
    Option(
        "router",
        values.address(),
        None,
        "the router's worker address",
        ("worker",),
        shown="required",
    ),
    Option(
        "metrics_listen",
        values.address(off=True),
        None,
        "extra address for /metrics",
        _SERVER,
        shown="on the HTTP address",
    ),
    Option(
        "health",
        values.address(off=True),
        None,
        "address for the worker's own health and metrics",
        _ENGINE,
        shown="off",
    ),
    # Model and machine
    Option("workers", values.integer(1, 64), 1, "worker processes to start", ("serve",)),
    Option(
        "served_model_name",
        values.named("NAME"),
        None,
        "model name that clients use",
        _ENGINE,
        shown="the model's own",
    ),
    Option("device", values.choice("auto", "cpu", "cuda"), "auto", "where the model runs", _RUNNER),
    Option(
        "dtype",
        values.choice("auto", "float32", "bfloat16", "float16"),
        "auto",
        "number format of the weights; auto goes by CPU features, never by timing",
        _RUNNER,
    ),
    Option(
        "threads",
        values.integer(1, 1024, auto=True),
        None,
        "threads per worker, or per rank of one",
        _RUNNER,
        shown="measured once",
    ),
    Option(
        "tensor_parallel",
        values.integer(1, 64),
        1,
        "processes (on GPUs: devices) that share the model of each worker; tokens do not depend on it",
        _ENGINE,
    ),
    Option(
        "max_context",
        values.integer(16, auto=True),
        None,
        "longest prompt plus answer, in tokens",
        _RUNNER,
        shown="the model's, as far as memory allows",
    ),
    Option(
        "max_running",
        values.integer(1, 4096, auto=True),
        None,
        "requests computed at the same time",
        _ENGINE,
        shown="by free memory",
    ),
    Option(
        "kv_memory",
        values.size,
        None,
        "memory for keys and values, per worker",
        _RUNNER,
        shown="by free memory",
    ),
    Option(
        "chunk_tokens",
        values.integer(16, 8192),
        256,
        "longest piece of a prompt computed in one step",
        _ENGINE,
    ),
    Option(
        "max_step_ms",
        values.number(1, 60_000),
        EngineOptions().max_step_ms,
        "milliseconds of a step that computes prompts while answers wait for it",
        _ENGINE,
    ),
    Option(
        "priority_age",
        values.duration,
        EngineOptions().age_s,
        "waiting time that makes up for one level of priority",
        _ENGINE,
        shown="10s",
    ),
    # Speculation
    Option(
        "speculation",
        values.choice("auto", "off", "bfs", "prob", "tiers"),
        "auto",
        "how draft trees are grown",
        _RUNNER,
    ),
    Option(
        "max_draft_tokens",
        values.integer(0, 63),
        16,
        "draft tokens per step and request, at most",
        _RUNNER,
    ),
    Option(
        "memory",
        values.size,
        256 << 20,
        "draft memory per worker, in bytes",
        _ENGINE,
        shown="256MiB",
    ),
    Option(
        "recycle",
        values.choice("off", "decode", "all"),
        EngineOptions().recycle,
        "draft from the model's runner-up tokens: after generated tokens, or prompts' too",
        _ENGINE,
    ),
    Option(
        "overlap",
        values.choice("auto", "on", "off"),
        EngineOptions().overlap,
        "learn on a thread of its own while the model runs; auto: where a core is left",
        _ENGINE,
    ),
    Option(
        "bigrams",
        values.choice("auto", "off"),
        EngineOptions().bigrams,
        "draft from what the model says after one token alone, computed once in idle time",
        _ENGINE,
    ),
    Option(
        "corpus",
        values.named("NAME"),
        (),
        "built corpus to draft from, by name or path; repeat for several",
        _ENGINE,
        repeated=True,
    ),
    Option("min_match", values.integer(1, 64), 1, "bfs and prob: shortest match", _ENGINE),
    Option("max_match", values.integer(1, 64), 16, "bfs and prob: longest match", _ENGINE),
    Option(
        "min_breadth",
        values.integer(1, 10),
        1,
        "bfs and prob: fewest children of a draft node",
        _ENGINE,
    ),
    Option(
        "max_breadth",
        values.integer(1, 10),
        10,
        "bfs and prob: most children of a draft node",
        _ENGINE,
    ),
    Option("max_depth", values.integer(1, 63), 18, "longest path of a draft tree", _ENGINE),
    # Limits and lifetime
    Option(
        "max_queue",
        values.integer(0, 65536, auto=True),
        None,
        "requests that may wait",
        _SERVER,
        shown="4 x running",
    ),
    Option(
        "request_timeout",
        values.duration,
        600.0,
        "deadline of requests that set none",
        _SERVER,
        shown="10m",
    ),
    Option(
        "drain_timeout",
        values.duration,
        30.0,
        "time running requests get on shutdown",
        _PROCESS,
        shown="30s",
    ),
    Option(
        "worker_stall_timeout",
        values.duration,
        10.0,
        "silence after which a worker counts as stalled",
        _SERVER,
        shown="10s",
    ),
    # Access
    Option(
        "api_keys",
        values.named("FILE"),
        None,
        "file of lines `key tenant`; without it, no key is asked for",
        _SERVER,
    ),
    Option(
        "allow_client_namespaces",
        values.flag,
        False,
        "let requests name their draft memory",
        _SERVER,
    ),
    Option(
        "cors_origin",
        values.named("ORIGIN"),
        (),
        "web origin that may call the HTTP API; repeat for several",
        _SERVER,
        repeated=True,
    ),
    # State and logs
    Option(
        "state_dir",
        values.named("DIR"),
        None,
        "folder for draft memory and added corpora that outlive a restart; "
        "without it no text reaches the disk",
        _PROCESS,
    ),
    Option(
        "snapshot_every",
        values.duration,
        300.0,
        "time between two snapshots of draft memory in --state-dir; 0 writes one at the end alone",
        _ENGINE,
        shown="5m",
    ),
    Option(
        "worker_index",
        values.integer(0, 4095),
        0,
        "which of several workers of one --state-dir this is",
        ("worker",),
    ),
    Option(
        "log_level",
        values.choice("error", "warn", "info", "debug", "trace"),
        "info",
        "least important log lines to show",
        _PROCESS,
    ),
    Option(
        "log_format",
        values.choice("text", "json"),
        "text",
        "form of log lines, on stderr",
        _PROCESS,
    ),
)
"""Every option of every command."""


def options_of(command: str) -> tuple[Option, ...]:
    """The options that `command` knows, in the order of help."""
    return tuple(option for option in TABLE if command in option.commands)


def add_options(parser: argparse.ArgumentParser, command: str) -> None:
    """Adds the flags of `command` and `--config` to `parser`.

    Values stay text, absent flags None: `settings.resolve` reads them together with environment
    and file, so that a wrong value gets the same message wherever it was written.
    """
    for option in options_of(command):
        help_text = f"{option.help} [{option.default_text}]".replace("%", "%%")
        if option.kind.is_flag:
            parser.add_argument(
                option.flag, action="store_const", const="true", dest=option.key, help=help_text
            )
        elif option.repeated:
            parser.add_argument(
                option.flag,
                action="append",
                dest=option.key,
                metavar=option.kind.metavar,
                help=help_text,
            )
        else:
            parser.add_argument(
                option.flag, dest=option.key, metavar=option.kind.metavar, help=help_text
            )
    parser.add_argument(
        "--config",
        metavar="FILE",
        help="TOML file of options (keys as the flags, with _ for -) [none]",
    )
