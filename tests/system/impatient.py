"""Stands for `spectrie`: a worker that cannot start is tried again every second, not twice a minute."""

from __future__ import annotations

import sys

from spectrie.cli import main
from spectrie.supervise import backoff

if __name__ == "__main__":
    backoff.LONGEST_PAUSE_S = 1.0
    sys.exit(main())
