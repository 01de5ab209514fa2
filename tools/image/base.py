"""The root that the images begin from: Debian's minimal system, without what its slim image leaves out too."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from tools.image.root import Failed, Root

__all__ = ["make_base", "suite_of"]

_LEFT_OUT = ("doc", "info", "linda", "lintian/overrides", "locale", "man")
"""Folders of /usr/share without which the slim image comes, and their files as packages are installed later."""
_KEPT = ("doc/*/copyright", "locale/locale.alias")
_APT = """\
DPkg::Post-Invoke { "rm -f /var/cache/apt/archives/*.deb /var/cache/apt/*.bin"; };
APT::Update::Post-Invoke { "rm -f /var/cache/apt/archives/*.deb /var/cache/apt/*.bin"; };
Dir::Cache::pkgcache "";
Dir::Cache::srcpkgcache "";
Acquire::Languages "none";
Acquire::GzipIndexes "true";
Apt::AutoRemove::SuggestsImportant "false";
"""
_TRACES = (
    "var/log",
    "var/cache/apt",
    "var/cache/debconf",
    "var/cache/ldconfig",
    "var/lib/apt/lists",
)
"""Where the making of the root leaves files that an image has no use for."""
_BY_CONTAINER = ("hosts", "hostname", "resolv.conf")
"""Files of /etc that each container gets from what runs it."""


def make_base(image: str, folder: Path, log: Path, env: Mapping[str, str]) -> Root:
    """Makes the root that a Dockerfile names.

    Args:
        image: `debian:RELEASE-slim`.
        folder: Becomes the root.
        log: Gets what commands print.
        env: For the commands inside.

    Raises:
        Failed: The image is another one, or a command failed.
    """
    suite = suite_of(image)
    root = Root(folder, log)
    # In a mount namespace of its own: what it mounts does not outlast it.
    words = ["unshare", "--mount", "debootstrap", "--force-check-gpg", "--variant=minbase"]
    root.command(*words, suite, str(folder))
    _leave_out(folder)
    rules = [f"path-exclude /usr/share/{name}/*" for name in _LEFT_OUT]
    rules += [f"path-include /usr/share/{name}" for name in _KEPT]
    root.write("/etc/dpkg/dpkg.cfg.d/docker", "\n".join([*rules, ""]))
    root.write("/etc/apt/apt.conf.d/docker", _APT)
    mirror = _mirror(folder)
    sources = [
        f"deb {mirror} {suite} main",
        f"deb {mirror} {suite}-updates main",
        f"deb {mirror}-security {suite}-security main",
    ]
    root.write("/etc/apt/sources.list", "\n".join([*sources, ""]))
    for name in _BY_CONTAINER:
        root.write(f"/etc/{name}", "")
    root.run("apt-get update -q && apt-get upgrade -q -y", env)
    _forget(folder)
    return root


def suite_of(image: str) -> str:
    """The release of Debian that an image is of.

    Raises:
        Failed: It is not `debian:RELEASE-slim`.
    """
    found = re.fullmatch(r"debian:(\w+)-slim", image)
    if found is None:
        raise Failed(f"the base is '{image}', and only 'debian:RELEASE-slim' can be made here")
    return found[1]


def _mirror(root: Path) -> str:
    """Where debootstrap had its packages from; those of the security team lie beside them."""
    text = (root / "etc" / "apt" / "sources.list").read_text(encoding="utf-8")
    found = re.match(r"deb (\S+?)/? ", text)
    if found is None:
        raise Failed(f"debootstrap left no source of packages in {root}/etc/apt/sources.list")
    return found[1]


def _leave_out(root: Path) -> None:
    share = root / "usr" / "share"
    kept = {path for pattern in _KEPT for path in share.glob(pattern)}
    for name in _LEFT_OUT:
        for path in sorted((share / name).rglob("*"), reverse=True):
            if path.is_dir() and not path.is_symlink():
                if not any(path.iterdir()):
                    path.rmdir()
            elif path not in kept:
                path.unlink()


def _forget(root: Path) -> None:
    """Folders stay: packages want their own."""
    for name in _TRACES:
        for path in (root / name).rglob("*"):
            if path.is_symlink() or path.is_file():
                path.unlink()
