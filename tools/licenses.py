"""Writes THIRD_PARTY_LICENSES.md: every crate inside the wheel with its licence texts.

Reads `cargo metadata` for the dependency graph of `spectrie-py` without development dependencies,
and the licence files of each crate's source folder. Texts that several crates share are printed
once. `--check` writes nothing and fails when the list of crates is out of date.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "THIRD_PARTY_LICENSES.md"
LICENSE_FILE = re.compile(r"^(licen[cs]e|copying|notice|unlicense)", re.IGNORECASE)


def linked_packages() -> list[dict[str, object]]:
    """The third-party packages that end up in the extension module, sorted by name and version."""
    run = subprocess.run(
        ["cargo", "metadata", "--format-version", "1", "--locked"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    metadata = json.loads(run.stdout)
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    packages = {package["id"]: package for package in metadata["packages"]}
    pending = [one["id"] for one in metadata["packages"] if one["name"] == "spectrie-py"]
    seen: set[str] = set()
    while pending:
        current = pending.pop()
        if current in seen:
            continue
        seen.add(current)
        for dependency in nodes[current]["deps"]:
            if any(kind["kind"] != "dev" for kind in dependency["dep_kinds"]):
                pending.append(dependency["pkg"])
    found = [packages[one] for one in seen if packages[one]["source"] is not None]
    return sorted(found, key=lambda package: (package["name"], package["version"]))


def license_texts(package: dict[str, object]) -> list[str]:
    folder = Path(str(package["manifest_path"])).parent
    return [
        path.read_text(errors="replace").strip()
        for path in sorted(folder.iterdir())
        if path.is_file() and LICENSE_FILE.match(path.name)
    ]


def table_line(package: dict[str, object]) -> str:
    return f"| {package['name']} | {package['version']} | {package['license'] or 'see text'} |"


def render(packages: list[dict[str, object]]) -> str:
    holders: dict[str, list[str]] = defaultdict(list)
    for package in packages:
        for text in license_texts(package):
            holders[text].append(f"{package['name']} {package['version']}")
    lines = [
        "# Third-party licences",
        "",
        "Crates compiled into the `spectrie` wheel. Made by `make licenses`.",
        "",
        "| crate | version | licence |",
        "|---|---|---|",
        *(table_line(package) for package in packages),
        "",
    ]
    for text, names in sorted(holders.items(), key=lambda item: item[1]):
        lines += [f"## {', '.join(names)}", "", "```text", text.replace("```", "'''"), "```", ""]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="fail when the list is out of date")
    packages = linked_packages()
    if parser.parse_args().check:
        listed = set(TARGET.read_text().splitlines())
        stale = [line for package in packages if (line := table_line(package)) not in listed]
        if stale:
            print("THIRD_PARTY_LICENSES.md lacks, run `make licenses`:", *stale, sep="\n")
        return 1 if stale else 0
    TARGET.write_text(render(packages))
    return 0


if __name__ == "__main__":
    sys.exit(main())
