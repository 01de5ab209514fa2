"""`spectrie demo`: the same prompts with speculation off and on, and with a drafter, side by side."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib import util
from typing import Any

from spectrie.cli.console.terminal import Painter
from spectrie.cli.demo.asking import Answer, ask
from spectrie.cli.demo.prompts import PROMPTS
from spectrie.cli.demo.tables import Answers, conclude
from spectrie.cli.flags import values
from spectrie.cli.flags.options import add_options, options_of
from spectrie.cli.flags.settings import Settings, resolve
from spectrie.client import Client
from spectrie.errors import ConfigError
from spectrie.supervise.command import running

__all__ = ["configure", "run"]

_EPILOG = """\
Starts a router and a worker on free ports, sends each prompt with speculation off, then on, and
prints a table. Where a head ships for MODEL, or --drafter names a drafter, a second server answers
with it too. The servers learn nothing between the runs. Exits with 1 if any answer differs.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.epilog = _EPILOG
    parser.add_argument(
        "model", metavar="MODEL", nargs="?", default="smollm2-135m", help="model [smollm2-135m]"
    )
    parser.add_argument(
        "--max-tokens", metavar="N", default="96", help="maximum answer length, in tokens [96]"
    )
    parser.add_argument("--server", metavar="ADDR", help="use this gRPC server instead [its own]")
    add_options(parser, "demo")


def run(args: argparse.Namespace) -> int:
    """Runs the demo; 1 when an answer depends on speculation."""
    settings = resolve("demo", args)
    try:
        max_tokens: int = values.integer(2, 4096).parse(args.max_tokens)
    except ValueError as error:
        raise ConfigError(f"--max-tokens: {error}") from None
    painter = Painter()
    if args.server:
        return conclude(_off_and_on(args.server, max_tokens, painter), painter)
    with _server(args.model, settings, ["off"]) as facts:
        answers = _off_and_on(facts["grpc"], max_tokens, painter)
    wished = _wished(args.model, settings)
    if not wished:
        return conclude(answers, painter)
    with _server(args.model, settings, wished) as facts:
        drafters = facts["workers"][0]["drafters"]
        if not drafters:
            print("without a drafter: this server has none\n")
            return conclude(answers, painter)
        for drafter in drafters:
            print(f"drafter: {drafter}")
        print()
        name = " and ".join(drafter.split(",")[0] for drafter in drafters)
        added = _with_drafter(facts["grpc"], max_tokens, painter, name)
    answers = [replace(one, drafter=more) for one, more in zip(answers, added, strict=True)]
    return conclude(answers, painter, name)


@contextmanager
def _server(model: str, settings: Settings, drafters: Sequence[str]) -> Iterator[dict[str, Any]]:
    """A router and a worker with drafters; gives the facts of their ready line."""
    note = Painter(sys.stderr)

    def show(line: str) -> None:
        print(note.dim(line), file=sys.stderr, flush=True)

    beside = "" if list(drafters) == ["off"] else f", with drafter {', '.join(drafters)}"
    print(f"starting a router and a worker for {model}{beside} ...", flush=True)
    began = time.monotonic()
    own = ["serve", model, "--http=127.0.0.1:0", "--grpc=127.0.0.1:0"]
    own += [f"--drafter={drafter}" for drafter in drafters]
    with running([*own, *_flags(settings)], show) as facts:
        worker = facts["workers"][0]
        print(
            f"ready after {time.monotonic() - began:.1f} s:"
            f" {worker['dtype']}, {worker['threads']} threads\n"
        )
        yield facts


def _flags(settings: Settings) -> list[str]:
    """The flags for `serve` of what was set for the demo, but for the drafter."""
    return [
        f"{option.flag}={settings[option.key]}"
        for option in options_of("demo")
        if option.key != "drafter"
        and settings.origins[option.key] != "default"
        and settings[option.key] is not None
    ]


def _wished(model: str, settings: Settings) -> list[str]:
    """The drafters of the second server; none for no such server."""
    drafters = list(settings["drafter"])
    if settings.origins["drafter"] == "default":
        drafters = ["auto"]
    if set(drafters) == {"off"} or util.find_spec("safetensors") is None:
        return []
    if set(drafters) != {"auto"}:
        return drafters
    from spectrie.model import resolve as resolve_model
    from spectrie.model.runner.drafter_loading import found_drafter

    # The first server has fetched the model, and kept its hash.
    return [] if found_drafter(resolve_model(model).folder).folder is None else drafters


@contextmanager
def _warm(target: str) -> Iterator[Client]:
    with Client(target) as client:
        # The first request of a server pays for what is made on first use.
        client.generate("Hello", max_tokens=4, temperature=0.0)
        yield client


def _off_and_on(target: str, max_tokens: int, painter: Painter) -> list[Answers]:
    answers = []
    with _warm(target) as client:
        if painter.enabled:
            print(painter.legend(), end="\n\n")
        for prompt in PROMPTS:
            print(painter.bold(f"[{prompt.title}] {prompt.shown}"))
            off, on = (
                ask(
                    client,
                    prompt,
                    max_tokens,
                    enabled=enabled,
                    painter=painter,
                    title=f"speculation {'on' if enabled else 'off'}",
                )
                for enabled in (False, True)
            )
            answers.append(Answers(prompt.title, off, on))
    return answers


def _with_drafter(target: str, max_tokens: int, painter: Painter, name: str) -> list[Answer]:
    answers = []
    with _warm(target) as client:
        for prompt in PROMPTS:
            print(painter.bold(f"[{prompt.title}] {prompt.shown}"))
            title = f"speculation on, with {name}"
            answers.append(
                ask(client, prompt, max_tokens, enabled=True, painter=painter, title=title)
            )
    return answers
