"""What a process that compiles forms has ready: it is forked from one that imported this."""

from __future__ import annotations

import importlib

from triton.runtime.cache import triton_key

__all__: list[str] = []

# Reads all files of Triton, which takes longer than most compilations; it is kept for the next call.
triton_key()
# Imported by the first compilation of a process.
importlib.import_module("triton.experimental.gluon")
