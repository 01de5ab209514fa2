"""How an image runs, as the instructions of its stages say, in the form that OCI gives it."""

from __future__ import annotations

import copy
import json
import re
import shlex
from collections.abc import Mapping
from typing import Any, Self

__all__ = ["Settings", "UnknownInstruction", "expand"]

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_JSON = {"ENTRYPOINT": "Entrypoint", "CMD": "Cmd"}
_TEXT = {"USER": "User", "WORKDIR": "WorkingDir"}


class UnknownInstruction(Exception):
    """An instruction that is not carried out here."""


class Settings:
    """What a stage has set so far.

    Args:
        outer: What ARG says before the first stage.
    """

    def __init__(self, outer: Mapping[str, str]) -> None:
        self._outer = outer
        self._env = {"PATH": _PATH}
        self._arguments: dict[str, str] = {}
        self._config: dict[str, Any] = {}

    def copy(self) -> Self:
        """Settings of a stage that begins from this one's."""
        return copy.deepcopy(self)

    @property
    def variables(self) -> dict[str, str]:
        """What a command of the build finds: arguments and variables."""
        return self._arguments | self._env

    @property
    def user(self) -> str:
        """Who runs."""
        return str(self._config.get("User", "0:0"))

    @property
    def folder(self) -> str:
        """Where it runs."""
        return str(self._config.get("WorkingDir", "/"))

    @property
    def config(self) -> dict[str, Any]:
        """In OCI's form; `Healthcheck`, which OCI does not name, in Docker's."""
        env = [f"{name}={value}" for name, value in self._env.items()]
        return {"Env": env, **self._config}

    def take(self, keyword: str, rest: str) -> None:
        """Takes an instruction that changes no file.

        Raises:
            UnknownInstruction: It is another one.
        """
        if keyword == "ARG":
            name, has_default, default = rest.partition("=")
            self._arguments[name] = default if has_default else self._outer.get(name, "")
        elif keyword == "ENV":
            self._env |= self._pairs(rest)
        elif keyword in _JSON:
            self._config[_JSON[keyword]] = json.loads(rest)
        elif keyword in _TEXT:
            self._config[_TEXT[keyword]] = rest
        elif keyword == "HEALTHCHECK":
            self._config["Healthcheck"] = _health(rest)
        else:
            self._add(keyword, rest)

    def _add(self, keyword: str, rest: str) -> None:
        if keyword == "LABEL":
            field, more = "Labels", self._pairs(rest)
        elif keyword == "EXPOSE":
            field, more = "ExposedPorts", {f"{one}/tcp": {} for one in rest.split()}
        elif keyword == "VOLUME":
            field, more = "Volumes", {one: {} for one in json.loads(rest)}
        else:
            raise UnknownInstruction(f"{keyword} {rest}")
        self._config[field] = self._config.get(field, {}) | more

    def _pairs(self, rest: str) -> dict[str, Any]:
        known = self.variables
        words = (word.partition("=") for word in shlex.split(rest))
        return {name: expand(value, known) for name, _, value in words}


def expand(text: str, values: Mapping[str, str]) -> str:
    """A text with the values of `$NAME` and `${NAME}`; nothing for those that have none."""
    return re.sub(
        r"\$(?:\{(\w+)\}|(\w+))", lambda found: values.get(found[1] or found[2], ""), text
    )


def _health(rest: str) -> dict[str, Any]:
    """A health command's words, and times in nanoseconds."""
    options, _, command = rest.rpartition("CMD ")
    found: dict[str, Any] = {"Test": ["CMD", *json.loads(command)]}
    for name, number, unit in re.findall(r"--([a-z-]+)=(\d+)(ms|s|m|h)\b", options):
        field = "".join(part.capitalize() for part in name.split("-"))
        found[field] = int(int(number) * _SECONDS[unit] * 1e9)
    return found
