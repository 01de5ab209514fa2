"""Puts a trained head where it ships with the package, or checks those that are there: `ship_head.py HEAD`, `ship_head.py`.

HEAD is the folder that `spectrie train-head` or `make head` wrote. It is copied to `python/spectrie/model/sources/heads`, with the log of its
training and a NOTICE that is made of what the files say: whose weights it is for, licences, hashes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HEADS = Path(__file__).resolve().parents[1] / "python/spectrie/model/sources/heads"
MAX_WEIGHTS_BYTES = 12_000_000
"""A wheel grows by as much with each head."""
MAX_LOG_BYTES = 64 << 10
CONFIG, WEIGHTS, LOG, NOTICE = "config.json", "model.safetensors", "train.log", "NOTICE"
UNSEEN = "tokens in a row are shared with"
"""What the log says once the samples were compared with text that must stay unseen."""


class ShippingError(Exception):
    """A head cannot ship as it is."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Ships or checks; 1 where something is wrong, which is printed."""
    parser = argparse.ArgumentParser(prog="tools/ship_head.py", description=__doc__)
    parser.add_argument(
        "head",
        nargs="?",
        type=Path,
        metavar="HEAD",
        help="folder of the head [check all that ship]",
    )
    parser.add_argument("--name", help="name for --drafter [that of HEAD, then its kind]")
    parser.add_argument(
        "--log",
        type=Path,
        action="append",
        help="log of the training; several are joined [HEAD.work/train.log]",
    )
    args = parser.parse_args(arguments)
    try:
        if args.head is None:
            print(f"heads that ship: {', '.join(check_all(HEADS)) or 'none'}")
        else:
            logs = args.log or [args.head.with_name(args.head.name + ".work") / LOG]
            print(ship(args.head, logs, HEADS, name=args.name))
    except ShippingError as error:
        print(f"ship_head: {error}", file=sys.stderr)
        return 1
    return 0


def ship(head: Path, logs: Sequence[Path], heads: Path, *, name: str | None = None) -> Path:
    """Copies a head below `heads` and returns its folder there.

    Raises:
        ShippingError: A file is missing, or the head cannot ship; see `check`.
    """
    files = {part: _read(head / part) for part in (CONFIG, WEIGHTS)}
    files[LOG] = b"".join(map(_read, logs))
    name = name or f"{head.name}-{_origin(files[WEIGHTS], head).get('kind')}"
    files[NOTICE] = notice(name, files).encode()
    folder = heads / name
    folder.mkdir(parents=True, exist_ok=True)
    for part, data in files.items():
        (folder / part).write_bytes(data)
    check(folder)
    return folder


def check_all(heads: Path) -> list[str]:
    """Checks every head below a folder and returns their names.

    Raises:
        ShippingError: See `check`.
    """
    folders = sorted(path for path in heads.glob("*") if path.is_dir())
    for folder in folders:
        check(folder)
    return [folder.name for folder in folders]


def check(folder: Path) -> None:
    """Checks that a folder holds what ships, and that its NOTICE is what the files say.

    Raises:
        ShippingError: Files are missing, too large or more than these; a licence, the commit or the check against
            unseen text is missing; or hashes and facts in the NOTICE are not those of the files.
    """
    if not folder.is_dir():
        raise ShippingError(f"{folder} is no folder of a head")
    expected = {CONFIG, WEIGHTS, LOG, NOTICE}
    found = {path.name for path in folder.iterdir()}
    if found != expected:
        raise ShippingError(f"{folder} holds {sorted(found)}, expected {sorted(expected)}")
    files = {part: _read(folder / part) for part in (CONFIG, WEIGHTS, LOG)}
    if notice(folder.name, files).encode() != _read(folder / NOTICE):
        raise ShippingError(f"{folder / NOTICE} says other things than the files beside it")


def notice(name: str, files: dict[str, bytes]) -> str:
    """Returns the text that ships beside a head.

    Args:
        name: Its name.
        files: Contents of its configuration, weights and log.

    Raises:
        ShippingError: Something keeps it from shipping.
    """
    origin = _origin(files[WEIGHTS], Path(name))
    _refuse(name, files, origin)
    shares = " / ".join(f"{share:.3f}" for share in origin["held_out_top_1"])
    digests = {part: hashlib.sha256(data).hexdigest() for part, data in files.items()}
    lines = [
        f"{name}: a head that drafts for one model, for `--drafter auto` and `--drafter {name}`.",
        "",
        f"kind: {origin['kind']}",
        f"model: {origin['model_hash']} (first digits of the SHA-256 of its configuration and weights)",
        f"licence of the text it learned, and so of the head: {origin['licence']}",
        "text of tenants: none",
        f"made by: make head, commit {origin['commit']}, version {origin['version']}, log in {LOG}",
        f"learned: {origin['answer_tokens']:,} answer tokens, {origin['steps']:,} steps",
        f"samples, SHA-256: {origin['samples_sha256']}",
        f"right on held-out answers, by level: {shares}",
        f"tokens of those answers that it can name: {origin['coverage']:.1%}",
        "",
        "data, SHA-256:",
        *(f"{item['sha256']}  {item['name']}" for item in origin["data"]),
        "",
        "files, SHA-256:",
        *(f"{digest}  {part}" for part, digest in sorted(digests.items())),
    ]
    return "\n".join(lines) + "\n"


def _refuse(name: str, files: dict[str, bytes], origin: dict[str, Any]) -> None:
    needed = (
        "kind model_hash licence commit version answer_tokens steps samples_sha256 held_out_top_1"
    )
    missing = [field for field in (*needed.split(), "coverage", "data") if not origin.get(field)]
    faults = [
        (bool(missing), f"its origin lacks {', '.join(missing)}"),
        (origin.get("licence") == "unknown", "the licence of its text is unknown"),
        (origin.get("namespaces") is not None, "it learned text of a tenant"),
        (not name.endswith(f"-{origin.get('kind')}"), "its name does not end with its kind"),
        (
            len(files[WEIGHTS]) > MAX_WEIGHTS_BYTES,
            f"{WEIGHTS} has {len(files[WEIGHTS]):,} bytes, allowed: {MAX_WEIGHTS_BYTES:,}",
        ),
        (
            len(files[LOG]) > MAX_LOG_BYTES,
            f"{LOG} has {len(files[LOG]):,} bytes, allowed: {MAX_LOG_BYTES:,}",
        ),
        (
            UNSEEN.encode() not in files[LOG],
            f"{LOG} does not say that its text was compared with text that must stay unseen",
        ),
    ]
    for is_fault, text in faults:
        if is_fault:
            raise ShippingError(f"{name} cannot ship: {text}")


def _origin(weights: bytes, where: Path) -> dict[str, Any]:
    """What `spectrie train-head` wrote into the header of the weights."""
    try:
        size = int.from_bytes(weights[:8], "little")
        header = json.loads(weights[8 : 8 + size])
        origin = json.loads(header["__metadata__"]["spectrie"])
    except (ValueError, KeyError, TypeError) as error:
        raise ShippingError(f"{where / WEIGHTS} names no origin: {error!r}") from error
    if not isinstance(origin, dict):
        raise ShippingError(f"{where / WEIGHTS} has an origin that is no object")
    return origin


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ShippingError(f"cannot read {path}: {error.strerror}") from error


if __name__ == "__main__":
    sys.exit(main())
