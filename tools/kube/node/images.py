"""What the images of the chart hold, read from their Dockerfiles: entry point, environment, and where files lie.

No image is built: the environment of this checkout stands for the one that `deploy/install.sh` makes.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from tools.kube.node.dockerfile import Stage, stages

__all__ = ["ROOT", "Image", "image_of"]

ROOT = Path(__file__).resolve().parents[3]
_APP = "registry.example/your-app"
_STAGES = {"cpu": "cpu", "router": "router", "cuda": "cuda"}


@dataclass(frozen=True, slots=True)
class Image:
    """An image.

    Attributes:
        command: Its entry point.
        arguments: What follows where a container gives none.
        env: Its variables.
        files: Folders and files of this machine, by where they lie in the image.
    """

    command: tuple[str, ...]
    arguments: tuple[str, ...]
    env: dict[str, str]
    files: dict[str, Path]


def image_of(name: str) -> Image:
    """The image that a manifest names.

    Raises:
        KeyError: No Dockerfile of ours makes it.
    """
    repository, _, tag = name.rpartition(":")
    ours = stages(ROOT / "deploy" / "Dockerfile")
    if repository == "spectrie":
        return _image([(ours[_STAGES.get(tag.rpartition("-")[2], "cpu")], ROOT)])
    if repository == _APP:
        folder = ROOT / "examples" / "pod"
        theirs = list(stages(folder / "Dockerfile").values())[-1]
        return _image([(ours["cpu"], ROOT), (theirs, folder)])
    raise KeyError(f"no Dockerfile here makes the image {name}")


def _image(layers: list[tuple[Stage, Path]]) -> Image:
    env: dict[str, str] = {}
    files: dict[str, Path] = {}
    for stage, context in layers:
        env |= stage.env
        for copy in stage.all("COPY"):
            words = copy.split()
            if words[0].startswith("--from=build"):
                files[words[2]] = Path(sys.prefix)
            elif not words[0].startswith("--"):
                *sources, to = words
                for source in sources:
                    # A file goes into a folder that ends in a slash; of a folder, what is in it.
                    at = to if not (context / source).is_file() else f"{to}{Path(source).name}"
                    files[at.rstrip("/")] = context / source
    last = layers[-1][0]
    return Image(tuple(last.words("ENTRYPOINT")), tuple(last.words("CMD")), env, files)
