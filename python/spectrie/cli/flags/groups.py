"""The headings under which help shows the options of a table."""

from __future__ import annotations

__all__ = ["GROUPS", "place_in_help", "title_of"]

GROUPS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "addresses",
        ("http", "grpc", "worker_listen", "router", "admin", "metrics_listen", "health"),
    ),
    (
        "model and device",
        (
            "served_model_name",
            "device",
            "dtype",
            "gpu_arithmetic",
            "threads",
            "tensor_parallel",
            "workers",
            "worker_index",
            "max_context",
            "kv_memory",
        ),
    ),
    (
        "scheduling",
        (
            "max_running",
            "max_queue",
            "max_connections",
            "waiting_memory",
            "chunk_tokens",
            "max_step_ms",
            "max_slowdown",
            "priority_age",
        ),
    ),
    (
        "speculation",
        (
            "speculation",
            "max_draft_tokens",
            "drafter",
            "drafting_cost_ms",
            "bigrams",
            "recycle",
            "overlap",
            "min_match",
            "max_match",
            "min_breadth",
            "max_breadth",
            "head_steps",
            "head_top_k",
            "max_depth",
        ),
    ),
    (
        "draft memory",
        (
            "memory",
            "max_namespaces",
            "corpus",
            "corpus_memory",
            "state_dir",
            "snapshot_every",
            "redis",
            "private_namespace",
        ),
    ),
    (
        "time limits",
        (
            "request_timeout",
            "drain_timeout",
            "worker_stall_timeout",
            "client_stall_timeout",
            "resume_window",
        ),
    ),
    (
        "access",
        (
            "api_keys",
            "allow_client_namespaces",
            "open_introspection",
            "allowed_hosts",
            "cors_origin",
            "worker_token_file",
            "admin_token_file",
            "tls_cert",
            "tls_key",
            "tls_client_ca",
            "tls_worker_ca",
            "tls_ca",
        ),
    ),
    (
        "logs, metrics and traces",
        (
            "log_level",
            "log_format",
            "access_log",
            "metrics_compat",
            "otlp_endpoint",
            "otlp_sample",
        ),
    ),
)
"""Headings in their order, and the keys under each. An option of none of them stands under "options"."""

_PLACES = {
    key: (group, place, title)
    for group, (title, keys) in enumerate(GROUPS)
    for place, key in enumerate(keys)
}


def title_of(key: str) -> str | None:
    """The heading of an option; None if it stands under "options"."""
    return _PLACES[key][2] if key in _PLACES else None


def place_in_help(key: str) -> tuple[int, int]:
    """Sorts options as help shows them."""
    return _PLACES[key][:2] if key in _PLACES else (-1, 0)
