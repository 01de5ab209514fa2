"""`python -m spectrie` is the `spectrie` command."""

from __future__ import annotations

import sys

from spectrie.cli import main

if __name__ == "__main__":
    sys.exit(main())
