"""The result file of a device: every result is on the disk before the next one is measured."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

__all__ = ["Record", "State"]

State = Literal["ok", "fault", "skipped"]


class Record:
    """Rows of one stage in `gpu-<device>.json`, beside those of earlier stages.

    The file holds `device`, facts by name, and `stages`, a list of `stage`, `commit` and `rows`. A row
    has `check`, `name`, `state` (ok, fault, skipped), `seconds`, `values`, and `error` unless it is ok.

    Args:
        folder: Where the file is; made if it does not exist.
        device: Name of the device.
        stage: Replaces the rows that a stage of this name left there.
        commit: What is measured; None if unknown.
    """

    def __init__(self, folder: Path, device: str, stage: str, commit: str | None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        slug = re.sub(r"[^a-z0-9]+", "-", device.lower()).strip("-") or "unknown"
        self.path = folder / f"gpu-{slug}.json"
        self.rows: list[dict[str, Any]] = []
        before = _read(self.path)
        self._device: dict[str, Any] = before.get("device", {})
        kept = [one for one in before.get("stages", []) if one["stage"] != stage]
        self._stages = [*kept, {"stage": stage, "commit": commit, "rows": self.rows}]
        self._write()

    @property
    def device(self) -> dict[str, Any]:
        """What the `device` check found, in this stage or an earlier one."""
        return dict(self._device)

    @property
    def faults(self) -> list[dict[str, Any]]:
        """The rows that are faults."""
        return [row for row in self.rows if row["state"] == "fault"]

    def add(
        self,
        check: str,
        name: str,
        state: State,
        *,
        seconds: float = 0.0,
        values: Mapping[str, Any] | None = None,
        error: str | None = None,
    ) -> None:
        """Appends a row and writes the file."""
        measured = dict(values or {})
        row = {
            "check": check,
            "name": name,
            "state": state,
            "seconds": round(seconds, 6),
            "values": measured,
        }
        if error is not None:
            row["error"] = error
        self.rows.append(row)
        if check == "device" and state == "ok":
            self._device |= measured
        self._write()

    def _write(self) -> None:
        content = {"device": self._device, "stages": self._stages}
        part = self.path.with_suffix(".part")
        with part.open("w", encoding="utf-8") as file:
            file.write(json.dumps(content, indent=1) + "\n")
            file.flush()
            os.fsync(file.fileno())
        part.replace(self.path)


def _read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
