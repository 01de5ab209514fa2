"""Runs `cargo test` and fails where a filter matched no test: `filtered_tests.py cargo test ... -- FILTER...`.

Cargo is content with a filter that matches nothing, as after a module was renamed. Each FILTER after the
last `--` must be part of the name of a test that ran; without filters, one test must have run. The last
line says how many did.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence

__all__ = ["main", "num_ran", "unmatched"]

# A test that prints has its verdict on a later line.
_RAN = re.compile(r"^test (?P<name>\S+)(?: - should panic)? \.\.\.(?! ignored)", re.MULTILINE)


def unmatched(command: Sequence[str], output: str) -> list[str]:
    """The filters of a command that no test in its output matches; `any test` where none ran."""
    names = [found["name"] for found in _RAN.finditer(output)]
    after = list(command[command.index("--") + 1 :]) if "--" in command else []
    filters = [word for word in after if not word.startswith("-")]
    if not filters:
        return [] if names else ["any test"]
    return [one for one in filters if not any(one in name for name in names)]


def num_ran(output: str) -> int:
    """Tests in an output that ran; ignored ones did not."""
    return len(_RAN.findall(output))


def main(command: Sequence[str]) -> int:
    """Runs the command, shows what it prints, and returns its exit code; 1 if a filter matched nothing."""
    if {"-q", "--quiet"} & set(command):
        print("error: --quiet hides the names of tests; leave it out", file=sys.stderr)
        return 2
    lines = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, errors="replace") as process:
        for line in process.stdout or ():
            sys.stdout.write(line)
            sys.stdout.flush()
            lines.append(line)
    if process.returncode != 0:
        return process.returncode
    output = "".join(lines)
    missing = unmatched(command, output)
    if missing:
        print(
            f"error: {', '.join(missing)} matched no test that ran; mend the filter of: {' '.join(command)}",
            file=sys.stderr,
        )
        return 1
    print(f"==> {num_ran(output)} tests ran: {' '.join(command)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
