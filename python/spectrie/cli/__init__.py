"""The `spectrie` command: finds the command's module, runs it and reports errors in one line.

Every command has a module with `configure(parser)` and `run(args) -> int`. It is imported only
when it is called: `spectrie --help` and `spectrie router` load no torch.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module

from spectrie.cli.flags.parser import CommandParser, HelpFormatter, add_command
from spectrie.errors import ConfigError, SpectrieError

__all__ = ["COMMANDS", "main"]

EXIT_FAILURE = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141


@dataclass(frozen=True, slots=True)
class Command:
    """A command: its line in `spectrie --help` and its module below `spectrie.cli`."""

    name: str
    summary: str
    module: str


COMMANDS: tuple[Command, ...] = (
    Command("serve", "serve models: router and workers, OpenAI HTTP and gRPC", "serve.command"),
    Command("generate", "continue one prompt, in this process or through a server", "generate"),
    Command("demo", "compare prompts with speculation off and on, side by side", "demo.command"),
    Command("models", "list, fetch, locate or remove models", "models"),
    Command("router", "run the router alone; workers connect to it", "router"),
    Command("worker", "run one worker for a router", "worker"),
    Command(
        "replay", "estimate what speculation would save on recorded requests", "replay.command"
    ),
    Command(
        "corpus",
        "build, list or remove corpora, the text that drafts may quote",
        "corpus.command",
    ),
    Command("train-head", "train a small head that drafts for a model", "train_head"),
    Command("memory", "list, forget or save what a running server has learned", "operators.memory"),
    Command("drain", "list a server's workers, or restart them without loss", "operators.drain"),
    Command("abort", "end one request of a running server", "operators.abort"),
    Command("keys", "make API keys, or list those of a server's file", "keys"),
    Command("bench", "measure a running server: throughput and latency", "bench.command"),
    Command("doctor", "check this machine and report what is missing", "doctor.command"),
    Command(
        "completion",
        "print the completion of commands and options for a shell",
        "console.completion",
    ),
)

_EPILOG = """\
MODEL is a folder with config.json and safetensors, a .gguf file, a Hugging Face id, or smollm2-135m.
Options can also be set as SPECTRIE_* environment variables or in a --config FILE; flags win.
`spectrie help COMMAND` shows the options of a command.

examples:
  spectrie demo
  spectrie serve smollm2-135m
  spectrie generate smollm2-135m "The capital of France is" --max-tokens 16
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line `argv`, the process's own by default, and returns the exit code.

    0 is success, 1 a failure, 2 a wrong use, 130 an interrupt; errors are one line on stderr.
    """
    try:
        return _dispatch(list(sys.argv[1:] if argv is None else argv))
    except ConfigError as error:
        return _complain(error, EXIT_USAGE)
    except SpectrieError as error:
        return _complain(error, EXIT_FAILURE)
    except SystemExit as end:  # argparse, after --help or a usage error
        return end.code if isinstance(end.code, int) else EXIT_USAGE if end.code else 0
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader of our output went away: write nothing more, not even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_BROKEN_PIPE
    except Exception as error:
        from spectrie.model.machine import why_no_core

        missing = why_no_core() if isinstance(error, ImportError) else None
        return _complain(missing or f"{type(error).__name__}: {error}", EXIT_FAILURE)


def _dispatch(arguments: list[str]) -> int:
    if arguments[:1] == ["help"]:
        arguments = [*arguments[1:], "--help"]
    wanted = next((a for a in arguments if not a.startswith("-")), None)
    parser = _parser(wanted)
    args = parser.parse(arguments)
    if args.version:
        from spectrie.version import __version__

        print(f"spectrie {__version__}")
        return 0
    if args.command is None:
        parser.print_help()
        return 0
    code: int = args.run(args)
    sys.stdout.flush()
    return code


def _parser(wanted: str | None) -> CommandParser:
    """The parser of the command line, with the arguments of one command, or for `completion` those of all."""
    parser = CommandParser(
        prog="spectrie",
        description="LLM inference server: exact speculation from a concurrent n-gram trie.",
        epilog=_EPILOG,
        formatter_class=HelpFormatter,
    )
    parser.add_argument("-V", "--version", action="store_true", help="print the version and exit")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for command in COMMANDS:
        child = add_command(commands, command.name, command.summary)
        if wanted in (command.name, "completion"):
            module = import_module(f"spectrie.cli.{command.module}")
            module.configure(child)
            child.set_defaults(run=module.run, whole=parser)
    return parser


def _complain(error: object, code: int) -> int:
    if os.environ.get("SPECTRIE_DEBUG"):
        traceback.print_exc()
    text = str(error).strip() or type(error).__name__
    print(f"spectrie: {text}", file=sys.stderr)
    return code
