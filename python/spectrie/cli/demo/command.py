"""`spectrie demo`: the same prompts with speculation off and on, side by side."""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass
from itertools import groupby

from spectrie.cli.console.terminal import Painter
from spectrie.cli.demo.prompts import PROMPTS, DemoPrompt
from spectrie.cli.flags import values
from spectrie.cli.flags.options import add_options, options_of
from spectrie.cli.flags.settings import Settings, resolve
from spectrie.client import Client
from spectrie.errors import ConfigError
from spectrie.printing.markdown import render_table
from spectrie.supervise.command import running
from spectrie.types import Completion, Delta, SpeculationOptions

__all__ = ["configure", "run"]

_EPILOG = """\
Starts a router and a worker on free ports, sends each prompt with speculation off, then on, and
prints a table. The server learns nothing between the runs. Exits with 1 if any answer differs.
"""


@dataclass(frozen=True, slots=True)
class Answer:
    """A completion and how quickly its tokens came."""

    completion: Completion
    tokens_per_second: float


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
        return _show(args.server, max_tokens, painter)
    note = Painter(sys.stderr)

    def show(line: str) -> None:
        print(note.dim(line), file=sys.stderr, flush=True)

    print(f"starting a router and a worker for {args.model} ...", flush=True)
    began = time.monotonic()
    own = ["serve", args.model, "--http=127.0.0.1:0", "--grpc=127.0.0.1:0"]
    with running([*own, *_flags(settings)], show) as facts:
        worker = facts["workers"][0]
        print(
            f"ready after {time.monotonic() - began:.1f} s:"
            f" {worker['dtype']}, {worker['threads']} threads\n"
        )
        return _show(facts["grpc"], max_tokens, painter)


def _flags(settings: Settings) -> list[str]:
    """The flags for `serve` of what was set for the demo."""
    return [
        f"{option.flag}={settings[option.key]}"
        for option in options_of("demo")
        if settings.origins[option.key] != "default" and settings[option.key] is not None
    ]


def _show(target: str, max_tokens: int, painter: Painter) -> int:
    with Client(target) as client:
        # The first request of a server pays for what is made on first use.
        client.generate("Hello", max_tokens=4, temperature=0.0)
        if painter.enabled:
            print(painter.legend(), end="\n\n")
        answers: list[tuple[DemoPrompt, Answer, Answer]] = []
        for prompt in PROMPTS:
            print(painter.bold(f"[{prompt.title}] {prompt.shown}"))
            off = _ask(client, prompt, max_tokens, enabled=False, painter=painter)
            on = _ask(client, prompt, max_tokens, enabled=True, painter=painter)
            answers.append((prompt, off, on))
    return _conclude(answers, painter)


def _ask(
    client: Client, prompt: DemoPrompt, max_tokens: int, *, enabled: bool, painter: Painter
) -> Answer:
    word = "on" if enabled else "off"
    print(painter.dim(f"--- speculation {word}"), flush=True)
    writer = _Writer(client, painter)
    began = time.monotonic()
    with client.stream(
        **prompt.request,
        max_tokens=max_tokens,
        sources=True,
        # Nothing is learnt: the second run must not profit from having seen the first one's answer.
        speculation=SpeculationOptions(enabled=enabled, learn=False),
    ) as stream:
        for delta in stream:
            writer.write(delta)
        completion = stream.final()
    seconds = completion.timing.decode_ns / 1e9 or time.monotonic() - began
    print("\n", flush=True)
    return Answer(completion, (completion.usage.completion_tokens - 1) / seconds)


class _Writer:
    """Prints the pieces of an answer, each token in the colour of its source."""

    def __init__(self, client: Client, painter: Painter) -> None:
        self._client = client
        self._painter = painter
        self._texts: dict[int, str] = {}

    def write(self, delta: Delta) -> None:
        """Prints one piece."""
        print(self._coloured(delta), end="", flush=True)

    def _coloured(self, delta: Delta) -> str:
        if not self._painter.enabled or len(delta.sources) != len(delta.token_ids):
            return delta.text
        texts = [self._text_of(token) for token in delta.token_ids]
        if "".join(texts) != delta.text:
            # A character of several tokens, or a special one: the piece takes one colour.
            return (
                self._painter.source(delta.text, delta.sources[0]) if delta.sources else delta.text
            )
        pairs = groupby(zip(texts, delta.sources, strict=True), key=lambda pair: pair[1])
        return "".join(
            self._painter.source("".join(text for text, _ in group), source)
            for source, group in pairs
        )

    def _text_of(self, token: int) -> str:
        if token not in self._texts:
            self._texts[token] = self._client.detokenize([token])
        return self._texts[token]


def _conclude(answers: list[tuple[DemoPrompt, Answer, Answer]], painter: Painter) -> int:
    rows = []
    differing = []
    for prompt, off, on in answers:
        identical = _essence(off.completion) == _essence(on.completion)
        if not identical:
            differing.append(prompt.title)
        by_source = on.completion.speculation.accepted_by_source.items()
        rows.append(
            [
                prompt.title,
                str(on.completion.usage.completion_tokens),
                f"{off.tokens_per_second:.1f}",
                f"{on.tokens_per_second:.1f}",
                f"{on.tokens_per_second / off.tokens_per_second:.2f}x",
                f"{on.completion.speculation.tokens_per_step:.2f}",
                ", ".join(f"{name} {count}" for name, count in by_source if count) or "none",
                "yes" if identical else "NO",
            ]
        )
    header = ["prompt", "tokens", "tok/s off", "tok/s on", "speed-up"]
    header += ["tokens/step", "accepted from", "identical"]
    print(render_table(header, rows))
    if differing:
        sys.stdout.flush()
        message = f"the answer depends on speculation: {', '.join(differing)}"
        print(f"spectrie: {message}; please report this", file=sys.stderr)
        return 1
    print(painter.dim("tok/s: decoding alone, as the server measured it"))
    return 0


def _essence(completion: Completion) -> tuple[object, ...]:
    """What must not depend on speculation."""
    usage = completion.usage
    return (
        completion.token_ids,
        completion.text,
        completion.finish_reason,
        usage.completion_tokens,
    )
