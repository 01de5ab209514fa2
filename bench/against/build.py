"""A build under measurement: its checkout, and a child process that uses its package."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.support.json_child import JsonChild
from bench.support.machine import ROOT, commit_of

__all__ = ["Build", "Child"]

_CORE = Path("python") / "spectrie" / "_core.abi3.so"


@dataclass(frozen=True, slots=True)
class Build:
    """A checkout whose Python module is built."""

    checkout: Path
    commit: str

    @staticmethod
    def of(checkout: Path) -> Build:
        """The build of a checkout.

        Raises:
            ValueError: The module is not built there.
        """
        if not (checkout / _CORE).exists():
            raise ValueError(f"{checkout} has no {_CORE}: run `make setup` there first")
        return Build(checkout, commit_of(checkout))

    def environment(self, cache: str) -> dict[str, str]:
        """That of a process which imports this build's package, with the benches of this checkout."""
        places = [self.checkout / "python", self.checkout / "kernels", ROOT]
        return os.environ | {
            "PYTHONPATH": os.pathsep.join(map(str, places)),
            "SPECTRIE_CACHE": cache,
        }


class Child:
    """A process that takes samples of one build.

    Args:
        build: Whose package it imports.
        sampler: Name in the `SAMPLERS` of its module.
        folder: The model.
        threads: Threads of a forward.
        more: Further arguments of the sampler.
        module: Where the sampler is.
    """

    def __init__(
        self,
        build: Build,
        sampler: str,
        folder: Path,
        threads: int,
        more: dict[str, Any],
        module: str = "bench.against.samplers",
    ) -> None:
        self._cache = tempfile.TemporaryDirectory(prefix="spectrie-bench-")
        arguments = [module, sampler, str(folder), str(threads), json.dumps(more)]
        self._process = JsonChild(
            "the measuring process",
            [sys.executable, "-m", "bench.against.child", *arguments],
            cwd=self._cache.name,
            env=build.environment(self._cache.name),
        )
        package = Path(self._process.read()["package"])
        if package != build.checkout / "python" / "spectrie":
            self.close()
            raise RuntimeError(f"measuring {build.checkout} would have measured {package}")

    def take(self, number: int) -> tuple[dict[str, float], dict[str, Any]]:
        """Rates and facts of one sample."""
        reply = self._process.ask(number)
        return reply["rates"], reply["facts"]

    def close(self) -> None:
        """Ends it."""
        self._process.close()
        self._cache.cleanup()
