"""What two builds are compared by. A sample gives rates, more is better, and facts that must be equal."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from contextlib import ExitStack
from pathlib import Path
from typing import Any

__all__ = ["SAMPLERS", "Sampler"]

Sample = tuple[dict[str, float], dict[str, Any]]
DECODE_TOKENS = 48
BATCH = 16
EDIT_TOKENS = 96
VERIFY_ROUNDS = 4
OVERLAP_STEPS = 160


class Sampler(ABC):
    """Takes samples of one build.

    Args:
        folder: The model.
        threads: Threads of a forward.
        more: Further arguments of this sampler.
    """

    def __init__(self, folder: Path, threads: int, more: dict[str, Any]) -> None:
        self.folder = folder
        self.threads = threads
        self.more = more
        self.stack = ExitStack()

    def __enter__(self) -> Sampler:
        self.open()
        return self

    def __exit__(self, *reason: object) -> None:
        self.stack.close()

    @abstractmethod
    def open(self) -> None:
        """Gets everything ready and warm."""

    @abstractmethod
    def take(self, number: int) -> Sample:
        """Sample `number`: rates by row, and facts that both builds must agree on."""


class Decode(Sampler):
    """Plain decoding, and the cost of verifying rows."""

    def open(self) -> None:
        from bench.cpu.verify import Rows
        from bench.support.prompt_ids import prompt_ids
        from bench.support.prompts import load
        from spectrie import LLM

        dtype = self.more["dtype"]
        self.rows = Rows(self.folder, dtype, self.threads)
        llm = LLM(self.folder, dtype=dtype, threads=self.threads, speculation=False)
        self.llm = self.stack.enter_context(llm)
        self.prompts = [prompt_ids(self.llm, prompt) for prompt in load("chat")]
        self.take(0)

    def take(self, number: int) -> Sample:
        from bench.support.rate import decode_rate

        dtype = self.more["dtype"]
        ids = self.prompts[number % len(self.prompts)]
        rates = {f"plain decode, batch 1, {dtype}": decode_rate(self.llm, ids, DECODE_TOKENS)}
        rounds = [self.rows.round() for _ in range(VERIFY_ROUNDS)]
        for rows in rounds[0]:
            best = min(one[rows] for one in rounds)
            rates[f"forward of {rows} row{'s' * (rows > 1)}, {dtype}"] = 1 / best
        return rates, {}


class Speculation(Sampler):
    """Sixteen requests at a time, and edits with a prediction, speculation on."""

    def open(self) -> None:
        from bench.support.prompt_ids import prompt_ids
        from bench.support.prompts import load
        from spectrie import LLM

        llm = LLM(self.folder, dtype=self.more["dtype"], threads=self.threads)
        self.llm = self.stack.enter_context(llm)
        self.edits = [(prompt, prompt_ids(self.llm, prompt)) for prompt in load("edit")]
        self.chats = [prompt_ids(self.llm, prompt) for prompt in load("chat")]
        self.take(0)

    def take(self, number: int) -> Sample:
        from bench.support.namespaces import fresh_namespace
        from bench.support.rate import rate
        from spectrie.types import SpeculationOptions

        unlearnt = SpeculationOptions(learn=False)
        batch = [*self.chats, *(ids for _, ids in self.edits)][:BATCH]
        together = rate(
            self.llm,
            batch,
            max_tokens=DECODE_TOKENS,
            temperature=0.0,
            ignore_eos=True,
            speculation=unlearnt,
        )
        prompt, ids = self.edits[number % len(self.edits)]
        began = time.perf_counter()
        answer = self.llm.generate(
            prompt_token_ids=ids,
            max_tokens=EDIT_TOKENS,
            temperature=0.0,
            prediction=prompt.prediction,
            namespace=fresh_namespace(),
            speculation=unlearnt,
        )
        seconds = time.perf_counter() - began
        rates = {
            f"{BATCH} at a time, {self.more['dtype']}": together,
            f"edits with a prediction, {self.more['dtype']}": len(answer.token_ids) / seconds,
        }
        return rates, {"answers of edits": {prompt.id: list(answer.token_ids)}}


class Router(Sampler):
    """Time that the router adds to a token."""

    def open(self) -> None:
        from bench.router.latency import Ways

        self.ways = self.stack.enter_context(Ways(self.folder))

    def take(self, number: int) -> Sample:
        order = ("direct", "routed") if number % 2 == 0 else ("routed", "direct")
        latency = {way: statistics.median(self.ways.latencies(way)) for way in order}
        # Noise may take all of it away.
        added = max(latency["routed"] - latency["direct"], 1.0)
        rates = {"time of a token, routed": latency["routed"], "time the router adds": added}
        return {what: 1e6 / microseconds for what, microseconds in rates.items()}, {}


class Overlap(Sampler):
    """Time between two forwards."""

    def open(self) -> None:
        self.take(0)

    def take(self, number: int) -> Sample:
        from bench.overlap import measure

        rates = {}
        for name, overlap in (("no overlap", False), ("overlap", True)):
            measured = measure(overlap=overlap, steps=OVERLAP_STEPS)
            rates[f"gap between forwards, {name}"] = 1e6 / measured["gap_us_p50"]
            rates[f"gap but drafting, {name}"] = 1e6 / measured["own_us_p50"]
        return rates, {}


class Draft(Sampler):
    """Drafting on a part of the code trace, by `spectrie replay`."""

    KEYS = ("steps", "accepted_tokens", "drafted_tokens", "calibration")

    def open(self) -> None:
        from bench.draft.trace import TRACES, read, write

        work = Path(self.stack.enter_context(tempfile.TemporaryDirectory()))
        self.trace = work / "part.jsonl.xz"
        write(self.trace, read(TRACES / "code.jsonl.xz")[:: self.more["every"]])
        self.corpora: list[str] = []
        if self.more["documents"]:
            from bench.draft.ours import build_corpus

            # Each build has a format of its own.
            documents = json.loads(Path(self.more["documents"]).read_text(encoding="ascii"))
            self.corpora.append(str(build_corpus("corpus", documents, work)))

    def take(self, number: int) -> Sample:
        rates, facts = {}, {}
        for name, corpora in (("own text", []), ("with corpus", self.corpora)):
            if name == "own text" or corpora:
                report = self._replay(corpora)
                rates[f"draft p50, {name}"] = 1e6 / report["draft_us_p50"]
                facts[f"drafts, {name}"] = {key: report[key] for key in self.KEYS}
        return rates, facts

    def _replay(self, corpora: list[str]) -> dict[str, Any]:
        command = [sys.executable, "-m", "spectrie", "replay", "--json", f"--input={self.trace}"]
        command += [f"--corpus={one}" for one in corpora]
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True
        )
        report: dict[str, Any] = json.loads(done.stdout)
        return report


SAMPLERS: dict[str, type[Sampler]] = {
    "decode": Decode,
    "speculation": Speculation,
    "router": Router,
    "overlap": Overlap,
    "draft": Draft,
}
