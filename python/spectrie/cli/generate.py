"""`spectrie generate`: continues one prompt, in this process or through a server."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from spectrie.cli.console.terminal import Painter, print_progress
from spectrie.cli.flags.arguments import read_value
from spectrie.cli.flags.options import REQUEST, add_option, add_options
from spectrie.cli.flags.settings import Settings, resolve
from spectrie.cli.flags.tls import add_tls, tls_of, uses_tls
from spectrie.errors import ConfigError
from spectrie.model.machine import require_packages
from spectrie.options import GenerateOptions
from spectrie.types import Completion

__all__ = ["configure", "run"]

_LOCAL_ONLY = ("device", "dtype", "threads", "max_context", "kv_memory", "max_draft_tokens")


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument("model", metavar="MODEL", help="model, or with --server a served name")
    parser.add_argument("prompt", metavar="PROMPT", help="text to continue; - reads standard input")
    parser.add_argument("--server", metavar="ADDR", help="gRPC address of a server to ask [none]")
    add_tls(parser)
    parser.add_argument("--chat", action="store_true", help="send PROMPT as a user message")
    for option in REQUEST:
        add_option(parser, option)
    parser.add_argument(
        "--stop",
        action="append",
        metavar="TEXT",
        help="text that ends the answer; repeat for several",
    )
    parser.add_argument(
        "--bad-word",
        action="append",
        metavar="TEXT",
        help="text that the answer must not contain; repeat for several",
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument(
        "--json-schema",
        metavar="FILE|JSON",
        help="restrict the answer to JSON that this schema allows",
    )
    form.add_argument(
        "--json-object", action="store_true", help="restrict the answer to a JSON object"
    )
    form.add_argument("--regex", metavar="REGEX", help="restrict the answer to this expression")
    form.add_argument(
        "--grammar", metavar="FILE", type=Path, help="restrict the answer to this Lark grammar"
    )
    form.add_argument(
        "--choice",
        action="append",
        metavar="TEXT",
        help="restrict the answer to this text; repeat for several",
    )
    parser.add_argument(
        "--prediction",
        metavar="FILE",
        type=Path,
        help="file that the answer will probably resemble",
    )
    parser.add_argument(
        "--sources", action="store_true", help="mark each piece with the source of its tokens"
    )
    parser.add_argument(
        "--stats", action="store_true", help="print counts and speed at the end, on stderr"
    )
    parser.add_argument("--json", action="store_true", help="print the whole answer as JSON")
    add_options(parser, "generate")


def run(args: argparse.Namespace) -> int:
    """Streams the answer to stdout."""
    settings = resolve("generate", args)
    options = _options_of(args)
    prompt = sys.stdin.read() if args.prompt == "-" else args.prompt
    if args.server:
        _refuse_local_flags(settings)
        options["model"] = args.model
        options["speculation"] = False if settings.speculation == "off" else None
    elif uses_tls(args):
        raise ConfigError("--tls and its files: need --server ADDR, the server to connect to")
    given: dict[str, Any] = (
        {"messages": [{"role": "user", "content": prompt}]} if args.chat else {"prompt": prompt}
    )
    painter = Painter()
    with (
        _backend(args, settings) as backend,
        backend(**given, **options) as stream,
    ):
        for delta in stream:
            if not args.json:
                text = delta.text
                if args.sources and delta.sources:
                    text = painter.source(text, delta.sources[0])
                print(text, end="", flush=True)
        completion: Completion = stream.final()
    if args.json:
        print(json.dumps(dataclasses.asdict(completion), ensure_ascii=False, indent=2))
    elif not completion.text.endswith("\n"):
        print()
    if args.stats:
        print(painter.dim(describe(completion)), file=sys.stderr)
    return 0


def describe(completion: Completion) -> str:
    """One line of counts and speed of an answer."""
    usage, speculation = completion.usage, completion.speculation
    parts = [
        f"{usage.prompt_tokens} prompt + {usage.completion_tokens} new tokens",
        f"ended by {completion.finish_reason}",
    ]
    seconds = completion.timing.decode_ns / 1e9
    if seconds > 0 and usage.completion_tokens > 1:
        parts.append(f"{(usage.completion_tokens - 1) / seconds:.1f} tokens/s")
    if speculation.verify_steps:
        parts.append(f"{speculation.tokens_per_step:.2f} tokens/step")
    by_source = [f"{name} {count}" for name, count in speculation.accepted_by_source.items()]
    if by_source:
        parts.append("accepted from " + ", ".join(by_source))
    return "; ".join(parts)


@contextmanager
def _backend(args: argparse.Namespace, settings: Settings) -> Iterator[Callable[..., Any]]:
    """The `stream` method of a client or of a model in this process."""
    if args.server:
        from spectrie.client import Client

        with Client(args.server, **tls_of(args)) as client:
            yield client.stream
        return
    require_packages()
    from spectrie.llm import LLM

    progress = print_progress if sys.stderr.isatty() else None
    with LLM(args.model, **settings.keywords(), progress=progress) as llm:
        yield llm.stream


def _options_of(args: argparse.Namespace) -> GenerateOptions:
    options: dict[str, Any] = {}
    for option in REQUEST:
        value = read_value(args, option.key, option.kind.parse, None)
        if value is not None:
            options[option.field] = value
    if args.stop:
        options["stop"] = args.stop
    if args.bad_word:
        options["bad_words"] = args.bad_word
    options.update(_form_of(args))
    if args.prediction is not None:
        options["prediction"] = args.prediction
    if args.sources or args.json:
        options["sources"] = True
    return options  # type: ignore[return-value]


def _form_of(args: argparse.Namespace) -> dict[str, Any]:
    """The option that restricts the answer's form, if one was given."""
    if args.json_schema is not None:
        if args.json_schema.lstrip().startswith("{"):
            return {"json_schema": args.json_schema}
        return {"json_schema": _read("--json-schema", Path(args.json_schema))}
    if args.grammar is not None:
        return {"grammar": _read("--grammar", args.grammar)}
    plain = {"json_object": args.json_object, "regex": args.regex, "choice": args.choice}
    return {name: value for name, value in plain.items() if value not in (None, False)}


def _read(flag: str, path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{flag}: cannot read {path}: {error}") from error


def _refuse_local_flags(settings: Settings) -> None:
    for key in _LOCAL_ONLY:
        if settings.origins[key] == "flag":
            flag = "--" + key.replace("_", "-")
            raise ConfigError(f"{flag}: has no effect with --server: set it on the server")
