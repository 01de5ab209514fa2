"""`spectrie replay`: would speculation help on these logs, and how much memory does it need?"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from itertools import repeat, zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from spectrie.cli.console.terminal import print_progress
from spectrie.cli.corpus.documents import build_from_records
from spectrie.cli.corpus.records import RecordError, Records, is_json_lines
from spectrie.cli.corpus.vocabulary import Vocabulary, load_vocabulary
from spectrie.cli.flags import values
from spectrie.cli.flags.arguments import add_value, read_value
from spectrie.cli.flags.options import option
from spectrie.cli.replay.bigrams import load_bigrams
from spectrie.cli.replay.costs import PUBLISHED, CostCurve, measured_curves, parse_curve
from spectrie.cli.replay.head_answers import HeadAnswers, answers_beside, open_answers
from spectrie.cli.replay.table import render_report
from spectrie.cli.replay.trace import read_request
from spectrie.errors import ConfigError
from spectrie.model.files.corpora import find_corpus
from spectrie.printing.progress import Progress

if TYPE_CHECKING:
    from spectrie._core import Replay

__all__ = ["configure", "run"]

_EPILOG = """\
FILE holds one request per line, in order of arrival (.jsonl, .jsonl.gz, .jsonl.xz, - for stdin):
  {"prompt_ids": [1, 2], "output_ids": [3, 4], "prediction_ids": [3, 5], "namespace": "tenant"}
or "prompt", "output" and "prediction" as text, which the tokenizer of --model encodes.
"topk" may hold, for each token of prompt and output, the [[ids...], [probabilities...]] that the
model predicted after it, or null. The replay then also drafts from the model's runner-up tokens.
--head drafts from a head's answers that were recorded for FILE (docs/drafting.md says how).

examples:
  spectrie replay --input requests.jsonl --memory online
  spectrie replay --input requests.jsonl --corpus our-code --cost 1:10,2:10.4,8:12,16:15
  spectrie replay --input requests.jsonl --memory online --memory-bytes 16MiB --json
"""
_MOST_COMPLAINTS = 5

_MODE = values.choice("auto", "bfs", "prob")
_HEAD = values.choice("off", "on", "only")
_LEVELS = values.integer(1, 63)
_MEMORY = values.choice("cold", "online")
_NODES = values.integer(0, 1024)
_SHARE = values.number(0, 1)
_COST = values.named("ROWS:MS,...")


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.epilog = _EPILOG
    parser.add_argument(
        "--input", metavar="FILE", required=True, help="recorded requests [required]"
    )
    parser.add_argument(
        "--corpus",
        action="append",
        metavar="CORPUS",
        default=[],
        help="text to draft from: a built corpus by name or path, or a .jsonl file of"
        ' {"ids": [...]} or {"text": "..."} lines; repeat for several [none]',
    )
    parser.add_argument(
        "--model", metavar="MODEL", help="model whose tokenizer reads text [the stored one]"
    )
    add_value(parser, "memory", _MEMORY, "cold", "online: insert finished requests into memory")
    size = option("memory").default_text
    add_value(parser, "memory_bytes", values.size, size, "maximum size of that memory")
    add_value(parser, "nodes", _NODES, 16, "maximum draft tokens per step")
    add_value(parser, "min_value", _SHARE, 0, "minimum probability of a draft token")
    add_value(parser, "mode", _MODE, "auto", "how to grow draft trees")
    add_value(
        parser,
        "bigrams",
        values.named("auto|FILE|off"),
        "auto",
        "the model's bigrams: auto takes those stored for --model",
    )
    add_value(
        parser, "head", _HEAD, "off", "draft from recorded answers of a head: beside text, or only"
    )
    parser.add_argument(
        "--head-answers",
        metavar="FILE",
        help="those answers [NAME.head.jsonl.xz beside the input]",
    )
    add_value(parser, "head_levels", _LEVELS, 5, "levels of them that a step asks for at most")
    add_value(parser, "head_rows", _LEVELS, 4, "nodes of a level that are asked about at most")
    parser.add_argument("--no-recycle", action="store_true", help='do not draft from "topk"')
    parser.add_argument("--no-hints", action="store_true", help="do not draft from sparse context")
    add_value(parser, "cost", _COST, "measured, or examples", "milliseconds of a forward by rows")
    parser.add_argument("--skip-bad", action="store_true", help="count and skip invalid lines")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Replays the file; the report goes to stdout, progress to stderr."""
    session = _Session(args)
    with session.replays() as replays:
        session.read(replays)
        report = replays[0].report()
        report["skipped_lines"] = session.skipped_lines
        report["projected_speedup"] = [
            _projection(curve, report, budgeted.report() if budgeted else None)
            for curve, budgeted in zip_longest(session.curves, replays[1:])
        ]
    if args.json:
        print(json.dumps(report, ensure_ascii=False))
    else:
        print(render_report(report))
    return 0


def _projection(
    curve: CostCurve, report: dict[str, Any], budgeted: dict[str, Any] | None
) -> dict[str, Any]:
    """The projection of a curve for the replay as requested, and for one that follows the curve."""
    projection: dict[str, Any] = {
        "curve": curve.name,
        "milliseconds_by_rows": {str(rows): cost for rows, cost in curve.points},
        "speedup": curve.speedup(report["output_tokens"], report["steps_by_drafted"]),
        "budgeted": None,
    }
    if budgeted is not None:
        projection["budgeted"] = {
            "speedup": curve.speedup(budgeted["output_tokens"], budgeted["steps_by_drafted"]),
            "accepted_per_step": budgeted["accepted_per_step"],
            "drafted_per_step": budgeted["drafted_per_step"],
        }
    return projection


class _Session:
    """One run of the command."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._args = args
        self._settings = {
            "nodes": read_value(args, "nodes", _NODES.parse, 16),
            "min_value": read_value(args, "min_value", _SHARE.parse, 0.0),
            "mode": read_value(args, "mode", _MODE.parse, "auto"),
            "memory": read_value(args, "memory", _MEMORY.parse, "cold"),
            "recycle": not args.no_recycle,
            "hints": not args.no_hints,
            "head": read_value(args, "head", _HEAD.parse, "off"),
            "head_levels": read_value(args, "head_levels", _LEVELS.parse, 5),
            "head_rows": read_value(args, "head_rows", _LEVELS.parse, 4),
        }
        if self._settings["head"] != "off":
            self._check_head()
        memory_bytes = read_value(args, "memory_bytes", values.size.parse, None)
        if memory_bytes is not None:
            self._settings["memory_bytes"] = memory_bytes
        self._bigrams: str = read_value(args, "bigrams", str, "auto")
        self._curve: CostCurve | None = read_value(args, "cost", parse_curve, None)
        self.skipped_lines = 0

    def _check_head(self) -> None:
        if self._settings["mode"] != "auto":
            raise ConfigError("--head is for --mode auto: the fixed modes ask no head")
        if self._args.input == "-":
            raise ConfigError("--head needs --input FILE: answers belong to one file of requests")

    def _answers(self) -> Iterator[HeadAnswers | None]:
        """The recorded answers for each line of the input."""
        if self._settings["head"] == "off":
            return repeat(None)
        path = self._args.head_answers or answers_beside(self._args.input)
        header, answers = open_answers(path, self._args.input)
        print_progress(
            f"answers of {header.drafter} ({header.kind} {header.drafter_hash}), known along the recorded"
            " output alone: what it would have drafted elsewhere competes with nothing"
        )
        return answers

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The tokenizer, loaded when the first text asks for it."""
        return load_vocabulary(self._args.model, print_progress)

    @property
    def _model_folder(self) -> Path | None:
        return self.vocabulary.folder if self._args.model is not None else None

    @cached_property
    def curves(self) -> list[CostCurve]:
        """The given cost curve, else those measured for the model, else examples."""
        if self._curve is not None:
            return [self._curve]
        measured = measured_curves(self.vocabulary.folder) if self._args.model else []
        return measured or list(PUBLISHED)

    @contextmanager
    def replays(self) -> Iterator[list[Replay]]:
        """The replay that was asked for, then one for each curve that sends what the curve makes
        worthwhile, if the mode gives probabilities; corpora built for them are gone at the end.
        """
        from spectrie._core import Replay

        costs: list[list[float]] = [[]]
        if self._settings["mode"] == "auto":
            rows = range(1, self._settings["nodes"] + 2)
            costs += [[curve.milliseconds(n) for n in rows] for curve in self.curves]
        with TemporaryDirectory(prefix="spectrie-") as folder:
            paths = [
                self._corpus(corpus, Path(folder) / f"{index}.corpus")
                for index, corpus in enumerate(self._args.corpus, start=1)
            ]
            try:
                bigrams = load_bigrams(self._bigrams, self._model_folder, print_progress)
                replays = [
                    Replay(corpora=paths, costs=one, bigrams=bigrams, **self._settings)
                    for one in costs
                ]
            except ValueError as error:
                raise ConfigError(str(error)) from None
            yield replays

    def _corpus(self, corpus: str, built: Path) -> Path:
        if is_json_lines(corpus):
            build_from_records(corpus, built, lambda: self.vocabulary)
            return built
        path = find_corpus(corpus)
        if self._args.model is not None:
            self._check_vocabulary(path)
        return path

    def _check_vocabulary(self, path: Path) -> None:
        from spectrie._core import corpus_info

        try:
            found = corpus_info(path).fingerprint
        except ValueError as error:
            raise ConfigError(str(error)) from None
        if found != self.vocabulary.fingerprint:
            raise ConfigError(
                f"--corpus {path}: its tokenizer is {found}, that of {self.vocabulary.name} is "
                f"{self.vocabulary.fingerprint}; build it again with --model {self.vocabulary.name}"
            )

    def read(self, replays: list[Replay]) -> None:
        """Replays every request of the input.

        Raises:
            ConfigError: A line is bad and none may be, or there is no request at all.
        """
        answers = self._answers()
        records = Records(self._args.input)
        num_requests = num_tokens = 0
        with Progress("replay", records.total_bytes) as progress:
            for number, line in records.lines():
                head = next(answers, None)
                try:
                    num_tokens += self._push(replays, records.parse(line), head)
                    num_requests += 1
                except RecordError as error:
                    self._complain(f"{records.name}: line {number}: {error}")
                note = f"{num_requests:,} requests, {num_tokens:,} output tokens"
                progress.show(records.bytes_read, note)
        if not num_requests:
            raise ConfigError(f"{records.name} holds no request that can be replayed")

    def _push(self, replays: list[Replay], record: dict[str, Any], head: HeadAnswers | None) -> int:
        request = read_request(record, lambda: self.vocabulary)
        try:
            for replay in replays:
                replay.push(
                    request.prompt_ids,
                    request.output_ids,
                    prediction_ids=request.prediction_ids,
                    namespace=request.namespace,
                    topk=request.topk,
                    head=head,
                )
        except ValueError as error:
            raise RecordError(str(error)) from None
        return len(request.output_ids)

    def _complain(self, message: str) -> None:
        if not self._args.skip_bad:
            raise ConfigError(f"{message} (--skip-bad skips such lines)")
        self.skipped_lines += 1
        if self.skipped_lines <= _MOST_COMPLAINTS:
            print_progress(f"skipped: {message}")
        if self.skipped_lines == _MOST_COMPLAINTS:
            print_progress("further invalid lines are only counted")
