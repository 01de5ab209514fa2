"""Measures one build: answers each line on stdin, a JSON object, with one on stdout.

Run as `python -m bench.against.child MODULE SAMPLER FOLDER THREADS MORE`, with the build's package first in
PYTHONPATH. The first line on stdout says which package that is.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path

import spectrie
from bench.against.samplers import Sampler


def main(module: str, name: str, folder: str, threads: str, more: str) -> None:
    """Opens a sampler and takes a sample for each number that comes."""
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    # What the package prints must not come between the replies.
    os.dup2(2, 1)
    kind: type[Sampler] = importlib.import_module(module).SAMPLERS[name]
    with kind(Path(folder), int(threads), json.loads(more)) as sampler:
        opened = {"package": str(Path(spectrie.__file__).parent)}
        print(json.dumps(opened), file=replies, flush=True)
        for line in sys.stdin:
            rates, facts = sampler.take(json.loads(line))
            print(json.dumps({"rates": rates, "facts": facts}), file=replies, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
