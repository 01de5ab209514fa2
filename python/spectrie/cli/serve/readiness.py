"""Waits until the router of `spectrie serve` answers for every model."""

from __future__ import annotations

import json
import logging
import time
import urllib.request
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["wait_served"]

SERVED_S = 30.0

_log = logging.getLogger(__name__)


def wait_served(
    router: Mapping[str, Any], models: Sequence[str], timeout_s: float = SERVED_S
) -> None:
    """Waits until the router has read the tokenizers that the workers of all models brought.

    Args:
        router: What the router said once it listened: its addresses.
        models: The names that are served.
        timeout_s: When to go on without, with a warning that names the models that are late.
    """
    address = router.get("metrics") or router.get("http")
    if not address:
        return
    # A proxy of the environment has no way to this machine's own addresses.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    missing = set(models)
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        try:
            with opener.open(f"http://{address}/readyz", timeout=5) as answer:
                missing = set(models) - set(json.load(answer)["models"])
        except (OSError, ValueError):
            # A router that was restarted meanwhile knows none of them.
            missing = set(models)
        if not missing:
            return
        time.sleep(0.05)
    _log.warning("not served after %g s: %s", timeout_s, ", ".join(sorted(missing)))
