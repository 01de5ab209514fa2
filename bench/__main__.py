"""Runs the benches: `python -m bench [cpu|speculation|router|draft|routing|overlap|gil|against|scale|hostile|caches|serving|pages ...]`."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from bench import gil, overlap, routing
from bench.against import run as against
from bench.cpu import table as cpu
from bench.draft import table
from bench.draft.heads import table as heads
from bench.draft.recording.head_file import ANSWERS, ENDING
from bench.draft.recording.tasks import ROUTED
from bench.hostile import run as hostile
from bench.router import caches, serving
from bench.router import latency as router
from bench.scale import run as scale
from bench.speculation import kinds, questions
from bench.support.pages import fill_pages
from spectrie.model import resolve

BENCHES = ("cpu", "speculation", "router")
"""Those that run when none is named."""
NAMED = (
    *("draft", "routing", "overlap", "gil", "against", "scale", "hostile", "caches", "serving"),
    "pages",
)
"""Those that run only when named: they take long, or fetch other projects' packages. `pages` measures
nothing: it fills README and docs/benchmarks.md from the results that are there."""


def main() -> int:
    """Runs what was asked for, everything by default."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("benches", nargs="*", metavar="BENCH", help=", ".join(BENCHES + NAMED))
    parser.add_argument("--model", default="smollm2-135m", help="model [smollm2-135m]")
    parser.add_argument("--pairs", type=int, default=24, help="pairs per comparison [24]")
    parser.add_argument("--max-tokens", type=int, default=96, help="tokens per answer [96]")
    parser.add_argument(
        "--routed", type=int, default=ROUTED, help=f"prompts of each routing level [{ROUTED}]"
    )
    parser.add_argument(
        "--llama",
        action="store_true",
        help="llama.cpp beside ours on the CPU (compiles 12 minutes)",
    )
    parser.add_argument(
        "--base", type=Path, help="built checkout that `against` and `scale` compare with"
    )
    parser.add_argument(
        "--quick", action="store_true", help="few samples for `against` and `scale`"
    )
    parser.add_argument(
        "--head",
        nargs="*",
        type=Path,
        metavar="FILE",
        help="for `draft`: compares a head's recorded answers instead of rivals [those of the head that ships]",
    )
    parser.add_argument(
        "--before",
        type=Path,
        metavar="FILE",
        help="for `draft`: replays nothing, sets an earlier draft.json beside the last one's figures",
    )
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument(
        "--questions",
        type=Path,
        metavar="FILE",
        help="for `speculation`: Spec-Bench's question.jsonl or a ShareGPT file instead of our prompts",
    )
    parser.add_argument(
        "--per-category", type=int, default=10, help="conversations of each category of FILE [10]"
    )
    args = parser.parse_args()
    unknown = set(args.benches) - {*BENCHES, *NAMED}
    if unknown:
        parser.error(
            f"unknown bench {', '.join(sorted(unknown))}: choose from {', '.join(BENCHES + NAMED)}"
        )
    if args.questions is not None:
        if args.benches != ["speculation"]:
            parser.error("--questions FILE goes with the bench `speculation` alone")
        return _ask(parser, args)
    if args.head is not None:
        if args.benches != ["draft"]:
            parser.error("--head FILE ... goes with the bench `draft` alone")
        heads.run(args.head or sorted((ANSWERS / "report").glob(f"*{ENDING}")))
        return 0
    if args.before is not None:
        if args.benches != ["draft"]:
            parser.error("--before FILE goes with the bench `draft` alone")
        table.beside(args.before)
        return 0
    wanted = args.benches or BENCHES
    if "against" in wanted and args.base is None:
        parser.error("against needs --base CHECKOUT, where `make setup` was run")
    if wanted != ["pages"]:
        _measure(args, wanted)
    fill_pages()
    return 0


def _ask(parser: argparse.ArgumentParser, args: argparse.Namespace) -> int:
    model = str(resolve(args.model, lambda line: print(line, file=sys.stderr)).folder)
    try:
        questions.run(
            args.questions,
            model,
            per_category=args.per_category,
            max_tokens=args.max_tokens,
            threads=args.threads,
        )
    except (OSError, ValueError) as error:
        parser.error(str(error))
    return 0


def _measure(args: argparse.Namespace, wanted: Sequence[str]) -> None:
    model = str(resolve(args.model, lambda line: print(line, file=sys.stderr)).folder)
    measure = {"pairs": args.pairs, "threads": args.threads, "max_tokens": args.max_tokens}
    # Costs and thread counts that an earlier start kept may come from a busier machine.
    with tempfile.TemporaryDirectory(prefix="spectrie-bench-") as cache:
        os.environ["SPECTRIE_CACHE"] = cache
        if "router" in wanted:
            router.run(model)
        if "cpu" in wanted:
            cpu.run(model, pairs=args.pairs, threads=args.threads, llama=args.llama)
        if "speculation" in wanted:
            kinds.run(model, **measure)
    quick = args.quick
    named: dict[str, Callable[[], None]] = {
        "routing": lambda: routing.run(model, threads=args.threads, prompts=args.routed),
        "overlap": overlap.run,
        "gil": lambda: gil.run(model, pairs=args.pairs, max_tokens=args.max_tokens),
        "hostile": lambda: hostile.run(model, threads=args.threads),
        "caches": lambda: caches.run(model),
        "serving": lambda: serving.run(model),
        "draft": lambda: table.run(model),
        "scale": lambda: scale.run(args.base, model, threads=args.threads, quick=quick),
        "against": lambda: against.run(
            args.base, model, pairs=args.pairs, threads=args.threads, quick=quick
        ),
    }
    for name, measure_one in named.items():
        if name in wanted:
            measure_one()


if __name__ == "__main__":
    sys.exit(main())
