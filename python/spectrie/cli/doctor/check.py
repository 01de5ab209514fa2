"""The outcome of one check."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

__all__ = ["Asked", "Check", "State"]

State = Literal["ok", "note", "fail"]


@dataclass(frozen=True, slots=True)
class Asked:
    """What the machine is checked for, as options of a server name it.

    Attributes:
        model: Name or folder of a model.
        device: `auto`, `cpu` or `cuda`.
        http: Address of the HTTP API.
        grpc: Address of the gRPC API.
        state_dir: Folder that keeps draft memory; None for none.
        drafters: Drafters for the model, as `--drafter` names them; None loads none.
    """

    model: str
    device: str = "auto"
    http: str = "127.0.0.1:8000"
    grpc: str = "127.0.0.1:50051"
    state_dir: str | None = None
    drafters: Sequence[str] | None = None


@dataclass(frozen=True, slots=True)
class Check:
    """The outcome of one check.

    Attributes:
        name: What was looked at.
        state: `ok`, `note` (works, but less well) or `fail`.
        text: What was found, and for a failure what to do.
    """

    name: str
    state: State
    text: str
