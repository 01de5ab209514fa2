"""Certificates made by the `openssl` command."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Authority", "Issued"]


@dataclass(frozen=True, slots=True)
class Issued:
    """Files of a certificate and its key."""

    cert: Path
    key: Path


class Authority:
    """Signs certificates for localhost."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cert = folder / "ca.pem"
        self._key = folder / "ca.key"
        request = ["req", "-x509", "-days", "2", "-subj", "/CN=test authority"]
        _openssl(*request, *_new_key(self._key), "-out", str(self.cert))

    def issue(self, name: str) -> Issued:
        """A new certificate in the files of `name`, which it replaces."""
        issued = Issued(self.folder / f"{name}.pem", self.folder / f"{name}.key")
        signing = self.folder / f"{name}.csr"
        names = self.folder / "names"
        names.write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
        _openssl("req", "-subj", f"/CN={name}", *_new_key(issued.key), "-out", str(signing))
        authority = ["-CA", str(self.cert), "-CAkey", str(self._key), "-CAcreateserial"]
        options = ["-days", "2", "-extfile", str(names), "-out", str(issued.cert)]
        _openssl("x509", "-req", "-in", str(signing), *authority, *options)
        return issued


def _new_key(path: Path) -> list[str]:
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    return [*curve, "-keyout", str(path)]


def _openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)
