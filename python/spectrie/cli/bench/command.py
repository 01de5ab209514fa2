"""`spectrie bench`: measures a running server under load, or one step of a model on a GPU."""

from __future__ import annotations

import argparse
import asyncio
import json
import math
from pathlib import Path
from typing import Any

from spectrie.cli.bench import profile
from spectrie.cli.bench.load import LoadPlan, run_load, summarise
from spectrie.cli.demo.prompts import PROMPTS
from spectrie.cli.flags import values
from spectrie.cli.flags.tls import TlsKeywords, add_tls, tls_of
from spectrie.cli.flags.values import Kind
from spectrie.client import AsyncClient
from spectrie.client.base import DEFAULT_TARGET
from spectrie.errors import ConfigError, SpectrieError
from spectrie.printing.markdown import render_table

__all__ = ["configure", "run"]

_EPILOG = """\
Measures with speculation off and on in turn, unless --speculation picks one; the server learns nothing. Files
of --prompts hold one JSON object per line: {"prompt": TEXT} or {"messages": [...]}, and optionally
"prediction": TEXT. Random text says nothing about speculation: use prompts like your own.
--profile needs no server: it loads the model onto this machine's GPU and prints one step by kernel.
"""
_NUMBERS: tuple[tuple[str, Kind, str, str], ...] = (
    ("num_prompts", values.integer(1, 100_000), "32", "requests to send"),
    ("max_concurrency", values.integer(1, 4096), "4", "requests running at a time"),
    ("request_rate", values.number(0.001, 1e6), "inf", "requests started per second"),
    ("max_tokens", values.integer(1), "128", "maximum answer length, in tokens"),
    ("temperature", values.number(0, 100), "0", "0 is greedy"),
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.epilog = _EPILOG
    parser.add_argument(
        "--server", metavar="ADDR", default=DEFAULT_TARGET, help=f"gRPC address [{DEFAULT_TARGET}]"
    )
    add_tls(parser)
    parser.add_argument("--model", metavar="NAME", help="served model [the only one]")
    for name, kind, default, text in _NUMBERS:
        flag = "--" + name.replace("_", "-")
        parser.add_argument(
            flag, dest=name, metavar=kind.metavar, default=default, help=f"{text} [{default}]"
        )
    parser.add_argument(
        "--prompts", metavar="FILE", type=Path, help="file of prompts [those of the demo]"
    )
    parser.add_argument(
        "--ignore-eos", action="store_true", help="ignore end-of-sequence: answers of full length"
    )
    parser.add_argument(
        "--speculation", choices=("both", "on", "off"), default="both", help="what to run [both]"
    )
    parser.add_argument("--save-result", metavar="FILE", type=Path, help="also write JSON [none]")
    profile.configure(parser)


def run(args: argparse.Namespace) -> int:
    """Prints a table; 1 when a request failed."""
    if args.profile is not None:
        return profile.run(args)
    numbers = _numbers_of(args)
    options = {
        "max_tokens": numbers["max_tokens"],
        "temperature": numbers["temperature"],
        "ignore_eos": args.ignore_eos,
    }
    rate = numbers["request_rate"]
    wishes = {"both": (False, True), "on": (True,), "off": (False,)}[args.speculation]
    plans = [
        LoadPlan(
            prompts=_prompts(args.prompts),
            num_prompts=numbers["num_prompts"],
            max_concurrency=numbers["max_concurrency"],
            request_rate=None if math.isinf(rate) else rate,
            options=options,
            speculation=wish,
        )
        for wish in wishes
    ]
    results = asyncio.run(_measure(args.server, args.model, tls_of(args), plans))
    print(_table(results))
    if args.save_result:
        args.save_result.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    failed = sum(result["failed"] for result in results.values())
    if failed:
        first = next(e for result in results.values() for e in result["errors"])
        raise SpectrieError(f"{failed} requests failed, the first with: {first}")
    return 0


async def _measure(
    target: str, model: str | None, tls: TlsKeywords, plans: list[LoadPlan]
) -> dict[str, dict[str, Any]]:
    results = {}
    async with AsyncClient(target, model=model, **tls) as client:
        await client.list_models()
        for plan in plans:
            outcome = await run_load(client, plan)
            name = "speculation on" if plan.speculation else "speculation off"
            results[name] = {**summarise(outcome), "errors": outcome.errors[:10]}
    return results


def _table(results: dict[str, dict[str, Any]]) -> str:
    keys = [
        key
        for key, value in next(iter(results.values())).items()
        if isinstance(value, int | float) or value is None
    ]
    rows = [[key, *(_cell(result.get(key)) for result in results.values())] for key in keys]
    return render_table(["measure", *results], rows)


def _cell(value: float | None) -> str:
    if value is None:
        return "-"
    return str(value) if isinstance(value, int) else f"{value:.2f}"


def _numbers_of(args: argparse.Namespace) -> dict[str, Any]:
    numbers: dict[str, Any] = {}
    for name, kind, _, _ in _NUMBERS:
        given = getattr(args, name)
        if name == "request_rate" and given == "inf":
            numbers[name] = math.inf
            continue
        try:
            numbers[name] = kind.parse(given)
        except ValueError as error:
            raise ConfigError(f"--{name.replace('_', '-')}: {error}") from None
    return numbers


def _prompts(path: Path | None) -> list[dict[str, Any]]:
    if path is None:
        kept = ("prompt", "messages", "prediction")
        return [{k: p.request[k] for k in kept if k in p.request} for p in PROMPTS]
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"--prompts {path}: {error}") from error
    prompts = [_prompt(line, f"{path}:{n}") for n, line in enumerate(lines, 1) if line.strip()]
    if not prompts:
        raise ConfigError(f"--prompts {path}: no prompts in it")
    return prompts


def _prompt(line: str, where: str) -> dict[str, Any]:
    try:
        prompt = json.loads(line)
    except json.JSONDecodeError as error:
        raise ConfigError(f"{where}: {error}") from None
    known = {"prompt", "messages", "prediction"}
    if not isinstance(prompt, dict) or ("prompt" in prompt) == ("messages" in prompt):
        raise ConfigError(f"{where}: give an object with either 'prompt' or 'messages'")
    if set(prompt) - known:
        raise ConfigError(f"{where}: unknown key {min(set(prompt) - known)!r}")
    return prompt
