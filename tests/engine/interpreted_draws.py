"""`python -m tests.engine.interpreted_draws ROWS TOKENS`: draws of the kernels by Triton's interpreter.

In a process of its own, as Triton reads `TRITON_INTERPRET` when it is first imported. ROWS holds logits and
the fields of `DrawRows`, TOKENS receives the tokens.
"""

from __future__ import annotations

import importlib
import sys

import torch

from spectrie_kernels import DrawRows, draw


def main(rows: str, tokens: str) -> None:
    """Draws."""
    importlib.import_module("kernels.tests.quick_interpreter").hasten(finds_overflow=False)
    given = torch.load(rows)
    torch.save(draw(given.pop("logits"), DrawRows(**given)), tokens)


if __name__ == "__main__":
    main(*sys.argv[1:])
