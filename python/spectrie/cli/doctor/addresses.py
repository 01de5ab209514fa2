"""What `spectrie doctor` says of the addresses that a server would listen on."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from spectrie.cli.doctor.check import Check

__all__ = ["check_address"]


def check_address(flag: str, address: str) -> Check:
    """Whether an address is free.

    Args:
        flag: The option of the server that it belongs to, such as `--http`.
        address: `HOST:PORT`, `unix:PATH` or `off`.
    """
    name = flag.removeprefix("--")
    if address == "off":
        return Check(name, "ok", "off: not listened on")
    if address.startswith("unix:"):
        return _socket(name, Path(address.removeprefix("unix:")))
    host, _, port = address.rpartition(":")
    if port == "0":
        return Check(name, "ok", f"{address}: a free port")
    try:
        found = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        return Check(name, "fail", f"{address}: {error.strerror}: give an address of this machine")
    family, kind, protocol, _, target = found[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(target)
        except OSError as error:
            text = f"{address}: {error.strerror}: stop the process that uses it, or choose another with {flag}"
            return Check(name, "note", text)
    return Check(name, "ok", f"{address} is free")


def _socket(name: str, path: Path) -> Check:
    folder = path.parent
    if not folder.is_dir():
        return Check(name, "fail", f"unix:{path}: there is no folder {folder}")
    if not os.access(folder, os.W_OK):
        return Check(name, "fail", f"unix:{path}: {folder} is not writable")
    return Check(name, "ok", f"unix:{path} can be made")
