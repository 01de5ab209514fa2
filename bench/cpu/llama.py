"""llama.cpp as the rival: its Python binding on the same GGUF, plain and with its prompt lookup."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path
from typing import TYPE_CHECKING

from bench.cpu.lines import Line, against_rival
from bench.support.json_child import JsonChild
from bench.support.packages import Package, cache_folder, fetch
from bench.support.pairs import Comparison, compare
from bench.support.prompt_ids import prompt_ids
from bench.support.prompts import load
from bench.support.rate import rate
from spectrie.types import SpeculationOptions

if TYPE_CHECKING:
    from spectrie import LLM

__all__ = ["Llama", "llama_lines"]

PACKAGE = Package(
    "llama-cpp-python",
    "llama_cpp_python-0.3.36.tar.gz",
    "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e",
)
FLOOR, GOAL = 1.0, 2.0
LOOKUP_TOKENS = 10
NEW_TOKENS = 128
_CHILD = Path(__file__).with_name("llama_child.py")


class Llama:
    """llama.cpp in a process of its own.

    Args:
        gguf: The model.
        threads: Threads of a forward.
    """

    def __init__(self, gguf: Path, threads: int) -> None:
        command = [str(_environment()), str(_CHILD), str(gguf), str(threads), str(LOOKUP_TOKENS)]
        self._process = JsonChild("llama.cpp", command, stderr=subprocess.DEVNULL)
        self._process.read()

    def run(self, ids: list[int], eos: list[int], *, lookup: bool) -> tuple[list[int], float]:
        """Continues a prompt greedily; gives the tokens and the seconds of all."""
        call = {"ids": ids, "eos": eos, "max_tokens": NEW_TOKENS, "lookup": lookup}
        reply = self._process.ask(call)
        return reply["tokens"], reply["seconds"]

    def close(self) -> None:
        """Ends the process."""
        self._process.close()


def _environment() -> Path:
    """The interpreter of an environment with the binding; compiles it the first time."""
    folder = cache_folder() / PACKAGE.file.removesuffix(".tar.gz")
    python = folder / "bin" / "python"
    done = folder / "built"
    if done.exists():
        return python
    print("  compiling llama.cpp (12 minutes on two cores, once)", file=sys.stderr, flush=True)
    source = fetch(PACKAGE)
    venv.create(folder, with_pip=True, clear=True)
    subprocess.run([str(python), "-m", "pip", "install", "--quiet", str(source)], check=True)
    done.touch()
    return python


def llama_lines(folder: Path, gguf: Path, dtype: str, *, threads: int, pairs: int) -> list[Line]:
    """Tokens per second of whole requests on the edit set, against its plain and its lookup form."""
    from spectrie import LLM

    rival = Llama(gguf, threads)
    try:
        with LLM(folder, dtype=dtype, threads=threads) as llm:
            samples = [prompt_ids(llm, prompt) for prompt in load("edit")]
            eos = _eos(folder)
            _ours(llm, samples[0])
            lines = []
            for name, lookup in (("plain", False), ("prompt lookup", True)):
                comparison = _compare(rival, llm, samples, eos, lookup, pairs, f"llama.cpp {name}")
                lines.append(
                    against_rival(
                        f"edits against llama.cpp {name}, ours {dtype}",
                        comparison,
                        "Q4_1",
                        floor=FLOOR,
                        goal=GOAL,
                    )
                )
            return lines
    finally:
        rival.close()


def _compare(
    rival: Llama,
    llm: LLM,
    samples: list[list[int]],
    eos: list[int],
    lookup: bool,
    pairs: int,
    title: str,
) -> Comparison:
    def theirs(ids: list[int]) -> float:
        tokens, seconds = rival.run(ids, eos, lookup=lookup)
        return len(tokens) / seconds

    return compare(
        [lambda ids=ids: theirs(ids) for ids in samples],  # type: ignore[misc]
        [lambda ids=ids: _ours(llm, ids) for ids in samples],  # type: ignore[misc]
        pairs=pairs,
        title=title,
    )


def _ours(llm: LLM, ids: list[int]) -> float:
    """Without `prediction`, which the rival has not, and without learning between requests."""
    unlearnt = SpeculationOptions(learn=False)
    return rate(llm, [ids], max_tokens=NEW_TOKENS, temperature=0.0, speculation=unlearnt)


def _eos(folder: Path) -> list[int]:
    from spectrie.model.config.model_config import ModelConfig

    return list(ModelConfig.from_folder(folder).eos_token_ids)
