"""Whether certificates can be made here."""

from __future__ import annotations

import shutil

import pytest

__all__ = ["needs_openssl"]

needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")
