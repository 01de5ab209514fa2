"""Carries out a Dockerfile: each stage in a root of its own, then each image as layers of what its stages add."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tools.image.base import make_base
from tools.image.context import Context, copy
from tools.image.layout import Layer, Layout
from tools.image.root import Failed, Root
from tools.image.settings import Settings, UnknownInstruction, expand
from tools.kube.node.dockerfile import arguments, stages

__all__ = ["MACHINES", "Builder"]

MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
"""What images call the processors that wheels are built for."""
_SHOWN = 100


@dataclass(slots=True)
class _Built:
    """A stage that has been carried out, or what one begins from.

    Attributes:
        root: Its files.
        settings: How it runs.
        parent: The name of what it began from; None if from nothing.
        layers: Once it is packed: from the bottom.
    """

    root: Root
    settings: Settings
    parent: str | None
    layers: list[Layer] | None = None


class Builder:
    """The stages of a Dockerfile.

    Args:
        file: The Dockerfile.
        context: What COPY takes.
        folder: For the roots.
        layout: Gets the images.
        created_s: The date of the images, in seconds since 1970.
        say: Prints a line.
        make_base: Makes the root that a stage begins from, of its name.
    """

    def __init__(
        self,
        file: Path,
        context: Context,
        folder: Path,
        layout: Layout,
        created_s: int,
        say: Callable[[str], None],
        make_base: Callable[[str, Path, Path, Mapping[str, str]], Root] = make_base,
    ) -> None:
        self._stages, self._arguments = stages(file), arguments(file)
        self._context, self._folder, self._layout = context, folder, layout
        self._say, self._make_base = say, make_base
        # By its date, Python has what it compiles checked by the source's content: files of images change dates.
        self._own = {
            "HOME": "/root",
            "DEBIAN_FRONTEND": "noninteractive",
            "SOURCE_DATE_EPOCH": str(created_s),
        }
        self._built: dict[str, _Built] = {}

    def add(self, target: str) -> None:
        """Makes a stage the image of its name.

        Raises:
            Failed: An instruction did, or is not known here; or there is no such stage.
        """
        if target not in self._stages:
            raise Failed(f"no stage is named '{target}'; there are {', '.join(self._stages)}")
        machine = MACHINES.get(platform.machine())
        if machine is None:
            raise Failed(f"this processor is {platform.machine()}; known: {', '.join(MACHINES)}")
        config = self._stage(target).settings.config
        self._layout.add_image(target, config, self._layers(target), machine)

    def _stage(self, name: str) -> _Built:
        if name in self._built:
            return self._built[name]
        stage = self._stages[name]
        if stage.parent in self._stages:
            parent, below = stage.parent, self._stage(stage.parent)
        else:
            parent = expand(stage.parent, self._arguments)
            below = self._base(parent)
        self._say(f"==> {name}")
        root = below.root.copy_to(self._folder / name)
        built = _Built(root, below.settings.copy(), parent)
        for keyword, rest in stage.own:
            self._carry_out(built, keyword, rest)
        self._built[name] = built
        return built

    def _base(self, image: str) -> _Built:
        if image not in self._built:
            self._say(f"==> {image}, made here")
            settings = Settings(self._arguments)
            env = self._own | settings.variables
            root = self._make_base(image, self._folder / "from", self._folder / "log", env)
            self._built[image] = _Built(root, settings, None)
        return self._built[image]

    def _carry_out(self, built: _Built, keyword: str, rest: str) -> None:
        if keyword == "RUN":
            self._run(built, " ".join(rest.split()))
        elif keyword == "COPY":
            for word in rest.split():
                if word.startswith("--from="):
                    self._stage(word.removeprefix("--from="))
            self._say(f"    COPY {rest}")
            roots = {name: one.root for name, one in self._built.items()}
            copy(rest, self._context, roots, built.root)
        else:
            try:
                built.settings.take(keyword, rest)
            except UnknownInstruction as error:
                raise Failed(f"not carried out here: {error}") from error
            if keyword == "WORKDIR":
                (built.root.path / rest.lstrip("/")).mkdir(parents=True, exist_ok=True)

    def _run(self, built: _Built, command: str) -> None:
        begun = time.monotonic()
        shown = command if len(command) <= _SHOWN else f"{command[: _SHOWN - 3]}..."
        self._say(f"    RUN {shown}")
        settings = built.settings
        built.root.run(
            command, self._own | settings.variables, user=settings.user, folder=settings.folder
        )
        self._say(f"        {time.monotonic() - begun:.0f} s")

    def _layers(self, name: str) -> list[Layer]:
        """What the root of a stage or a base has, from the bottom; packed once."""
        built = self._built[name]
        if built.layers is None:
            lower: list[Layer] = []
            below: Path | None = None
            if built.parent is not None:
                lower, below = self._layers(built.parent), self._built[built.parent].root.path
            self._say(f"    packing what {name} adds")
            layer = self._layout.add_layer(built.root.path, below, name)
            built.layers = lower + ([layer] if layer is not None else [])
        return built.layers
