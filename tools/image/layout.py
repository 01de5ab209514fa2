"""Images as files: a folder in OCI's layout, whose blobs several images share."""

from __future__ import annotations

import gzip
import hashlib
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, Protocol, cast

from tools.image.tree import apply_layer, pack

__all__ = ["Layer", "Layout"]

Json = dict[str, Any]
_TYPE = "application/vnd.oci.image."
_NAME = "org.opencontainers.image.ref.name"
# Nothing is gained above this but time.
_LEVEL = 9


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer that a layout has.

    Attributes:
        digest: Of the compressed archive, `sha256:` before it.
        bare_digest: Of the archive before it was compressed.
        size: Bytes of the compressed archive.
        made_by: What made it, for people.
    """

    digest: str
    bare_digest: str
    size: int
    made_by: str


class _Writable(Protocol):
    def write(self, data: bytes, /) -> int: ...

    def tell(self) -> int: ...

    def flush(self) -> None: ...


class _Hashing:
    """A file that takes the digest of what is written to it."""

    def __init__(self, file: _Writable) -> None:
        self._file, self._hash = file, hashlib.sha256()

    def write(self, data: bytes) -> int:
        self._hash.update(data)
        return self._file.write(data)

    def tell(self) -> int:
        return self._file.tell()

    def flush(self) -> None:
        self._file.flush()

    @property
    def digest(self) -> str:
        return f"sha256:{self._hash.hexdigest()}"


class Layout:
    """A layout in a folder.

    Args:
        folder: The folder; it is made where it is missing.
        created_s: The date of all that is written, in seconds since 1970.
    """

    def __init__(self, folder: Path, created_s: int = 0) -> None:
        self._folder, self._created_s = folder, created_s
        self._blobs = folder / "blobs" / "sha256"

    def add_layer(self, tree: Path, below: Path | None, made_by: str) -> Layer | None:
        """Packs what a tree has more than the one below; None where that is nothing."""
        self._blobs.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=self._blobs, delete=False) as file:
            outer = _Hashing(file)
            with gzip.GzipFile("", "wb", _LEVEL, outer, mtime=0) as compressed:
                inner = _Hashing(compressed)
                number = pack(tree, below, inner, self._created_s)  # type: ignore[arg-type]
        path = Path(file.name)
        if number == 0:
            path.unlink()
            return None
        path.chmod(0o644)
        size = path.stat().st_size
        path.rename(self._path(outer.digest))
        return Layer(outer.digest, inner.digest, size, made_by)

    def add_image(self, name: str, config: Json, layers: Sequence[Layer], machine: str) -> None:
        """Adds an image of layers that are here, instead of one of the same name.

        Args:
            name: What it is found by.
            config: How it runs, in the fields that OCI names (Healthcheck is Docker's).
            layers: From the bottom.
            machine: The processor, as OCI names it.
        """
        date = self._date()
        whole = {
            "created": date,
            "architecture": machine,
            "os": "linux",
            "config": config,
            "rootfs": {"type": "layers", "diff_ids": [one.bare_digest for one in layers]},
            "history": [{"created": date, "created_by": one.made_by} for one in layers],
        }
        manifest = {
            "schemaVersion": 2,
            "mediaType": f"{_TYPE}manifest.v1+json",
            "config": self._add(whole, f"{_TYPE}config.v1+json"),
            "layers": [
                {
                    "mediaType": f"{_TYPE}layer.v1.tar+gzip",
                    "digest": one.digest,
                    "size": one.size,
                }
                for one in layers
            ],
            "annotations": config.get("Labels", {}),
        }
        entry = self._add(manifest, f"{_TYPE}manifest.v1+json")
        entry |= {
            "platform": {"architecture": machine, "os": "linux"},
            "annotations": {_NAME: name},
        }
        others = [one for one in self._index() if one["annotations"][_NAME] != name]
        ordered = sorted([*others, entry], key=lambda one: str(one["annotations"][_NAME]))
        index = {
            "schemaVersion": 2,
            "mediaType": f"{_TYPE}index.v1+json",
            "manifests": ordered,
        }
        (self._folder / "index.json").write_bytes(_bytes(index))
        (self._folder / "oci-layout").write_bytes(_bytes({"imageLayoutVersion": "1.0.0"}))

    def names(self) -> list[str]:
        """The images that are here."""
        return [one["annotations"][_NAME] for one in self._index()]

    def config(self, name: str) -> Json:
        """How an image runs.

        Raises:
            KeyError: There is none of the name.
        """
        config = self._read(self._manifest(name)["config"]["digest"])["config"]
        return dict(config)

    def size(self, name: str) -> int:
        """Bytes of an image's layers, compressed."""
        return sum(one["size"] for one in self._manifest(name)["layers"])

    def unpack(self, name: str, to: Path) -> None:
        """Lays an image's layers over one another in a folder.

        Raises:
            KeyError: There is none of the name.
            ValueError: A layer is not what its digest says.
        """
        manifest = self._manifest(name)
        bare = self._read(manifest["config"]["digest"])["rootfs"]["diff_ids"]
        for layer, expected in zip(manifest["layers"], bare, strict=True):
            with self._unpacked(layer["digest"], expected) as content:
                apply_layer(content, to)

    @contextmanager
    def _unpacked(self, digest: str, bare: str) -> Iterator[IO[bytes]]:
        """The archive of a layer, if it has both digests."""
        with self._path(digest).open("rb") as file:
            found = f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
        with gzip.open(self._path(digest)) as content:
            inner = f"sha256:{hashlib.file_digest(content, 'sha256').hexdigest()}"
        if (found, inner) != (digest, bare):
            raise ValueError(f"the layer {digest} has the digests {found} and {inner}")
        with gzip.open(self._path(digest)) as content:
            yield cast("IO[bytes]", content)

    def _manifest(self, name: str) -> Json:
        found = {one["annotations"][_NAME]: one["digest"] for one in self._index()}
        return self._read(found[name])

    def _index(self) -> list[Json]:
        path = self._folder / "index.json"
        return list(json.loads(path.read_bytes())["manifests"]) if path.exists() else []

    def _read(self, digest: str) -> Json:
        return dict(json.loads(self._path(digest).read_bytes()))

    def _add(self, content: Mapping[str, Any], kind: str) -> Json:
        data = _bytes(content)
        digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
        self._blobs.mkdir(parents=True, exist_ok=True)
        self._path(digest).write_bytes(data)
        return {"mediaType": kind, "digest": digest, "size": len(data)}

    def _path(self, digest: str) -> Path:
        return self._blobs / digest.removeprefix("sha256:")

    def _date(self) -> str:
        at = datetime.fromtimestamp(self._created_s, UTC)
        return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def _bytes(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
