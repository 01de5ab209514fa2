"""What `spectrie serve` says once all of it is ready."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from spectrie.cli.flags.settings import Settings
from spectrie.supervise.ready_line import print_ready
from spectrie.version import __version__

__all__ = ["print_summary"]


def print_summary(
    settings: Settings,
    names: Sequence[str],
    router: Mapping[str, Any],
    workers: Sequence[Mapping[str, Any]],
) -> None:
    """Says where the models are served and how, for people and, in one line, for scripts."""
    name = names[0]
    http = router.get("http")
    scheme = "https" if settings.tls_cert else "http"
    lines = [("serving", f"{', '.join(names)}, spectrie {__version__}")]
    if http:
        lines.append(("OpenAI API", f"{scheme}://{http}/v1"))
    if router.get("grpc"):
        lines.append(("gRPC", str(router["grpc"])))
    for one in names:
        if len(names) > 1:
            lines.append(("model", one))
        lines += _model_lines([worker for worker in workers if worker["model"] == one])
    if settings.state_dir:
        every = f"every {settings.snapshot_every:g} s and " if settings.snapshot_every else ""
        lines.append(("state", f"{settings.state_dir}, written {every}at the end"))
    if router.get("admin"):
        lines.append(("operators", f"spectrie memory list --server {router['admin']}"))
    if http:
        keyed = settings.api_keys is not None
        lines.append(("try", _curl(f"{scheme}://{http}", name, keyed)))
    for title, content in lines:
        print(f"  {title:<13} {content}")
    print("  Ctrl-C lets running requests finish; twice stops at once", flush=True)
    print_ready(
        {
            "role": "serve",
            "pid": os.getpid(),
            "model": name,
            "models": list(names),
            "http": router.get("http"),
            "grpc": router.get("grpc"),
            "metrics": router.get("metrics"),
            "admin": router.get("admin"),
            "workers": list(workers),
        }
    )


def _model_lines(workers: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """What the start says of one model, by its workers."""
    first = workers[0]
    lines = [
        ("workers", _processes(workers)),
        ("context", f"{first['max_context']} tokens, {first['max_running']} requests at a time"),
        ("cache", f"{_mib(first['kv_bytes'])} per worker, for {first['kv_tokens']} tokens"),
        ("draft memory", f"{_mib(first['memory_bytes'])} per worker"),
        ("speculation", _speculation(first)),
    ]
    lines += [("drafter", str(line)) for line in first["drafters"]]
    if first["corpora"]:
        lines.append(("corpora", ", ".join(first["corpora"])))
    return lines


def _processes(workers: Sequence[Mapping[str, Any]]) -> str:
    first = workers[0]
    ranks = f"{first['ranks']} processes of " if first["ranks"] > 1 else ""
    return f"{len(workers)}, {ranks}{first['threads']} threads each, {first['dtype']}"


def _mib(num_bytes: int) -> str:
    return f"{num_bytes / (1 << 20):.0f} MiB"


def _speculation(worker: Mapping[str, Any]) -> str:
    mode = worker["speculation"]
    if mode == "off":
        return "off"
    sources = ["prediction", "request", "shared"]
    sources += ["corpus"] if worker["corpora"] else []
    sources += ["recycled"] if worker["recycle"] != "off" else []
    sources += ["bigrams"] if worker["bigrams"] != "off" else []
    return (
        f"{mode}, at most {worker['max_draft_tokens']} draft tokens a step; "
        f"sources: {', '.join(sources)}"
    )


def _curl(server: str, name: str, keyed: bool) -> str:
    body = f'{{"model": "{name}", "messages": [{{"role": "user", "content": "Hello!"}}]}}'
    key = " -H 'authorization: Bearer KEY'" if keyed else ""
    url = f"{server}/v1/chat/completions"
    return f"curl {url}{key} -H 'content-type: application/json' -d {shlex.quote(body)}"
