"""The declared order of rooms inside each crate and package, and the circles that are allowed."""

from __future__ import annotations

__all__ = [
    "CIRCLES",
    "GENERATED",
    "LATE_IMPORTS",
    "LIMITS",
    "ORDERS",
    "ROOTS",
    "TEST_ROOTS",
    "order_of",
]

LIMITS = {"source lines": 400, "test lines": 500, "entries": 16}
ROOTS = ("rust/*/src", "python/spectrie", "kernels/spectrie_kernels", "bench")
"""Where files have at most 400 lines and folders at most 16 entries."""
TEST_ROOTS = ("tests", "kernels/tests", "rust/*/tests")
"""Where files have at most 500 lines."""
GENERATED = ("rust/proto/src/generated", "python/spectrie/_proto", "python/spectrie/_core.pyi")
"""Checked in, compared in `make lint`, not read as source."""

# From the bottom: a room uses those above its line in this list, never its neighbours or those below.
# A file outside all folders is its own room.
ORDERS: dict[str, tuple[str, ...]] = {
    "python/spectrie/model": (
        "machine plan",
        "gpu",
        "config files step",
        "gguf operators parallel",
        "decoder sources",
        "drafters",
        "launch",
        "runner",
        "load",
        "__init__",
    ),
    "python/spectrie/model/launch/drafts": (
        "__init__ blocks operators results tensors",
        "layers memory",
        "naming",
        "words",
        "entries kinds",
        "levels",
        "keeper weights",
        "drafts",
    ),
    "python/spectrie/training": (
        "checkpoint settings target texts",
        "features low_rank vocabulary",
        "batches",
        "kinds",
        "evaluation export recipe",
        "trainer worth",
        "training",
        "__init__",
    ),
    "python/spectrie/cli": (
        "console flags",
        "operators",
        "corpus demo doctor generate keys models router worker",
        "bench replay serve train_head",
        "__init__",
    ),
    "kernels/spectrie_kernels/attention": (
        "__init__",
        "key_order roots rows tiles",
        "work",
        "layout",
        "arrays",
    ),
    "kernels/spectrie_kernels/device": (
        "__init__",
        "attention_unit gather_rows linear move_slots sampling take_drawn unpack",
        "attention_parts attention_prompt product",
        "add_norm gate rotate_write tree_attention",
        "experts",
    ),
    "kernels/spectrie_kernels": (
        "tables",
        "attention backend draw_rows step_arrays sum_order",
        "linear_tiles linear_weight partial_sums",
        "checks",
        "experts",
        "device reference",
        "calls",
        "__init__",
    ),
    "bench": (
        "__init__",
        "support",
        "cpu draft router",
        "gil gpu hostile overlap routing speculation",
        "against",
        "scale",
        "__main__",
    ),
    "bench/gpu": (
        "__init__ carry check clock fake_device goals models",
        "device running simulated stages",
        "smoke",
        "kernels",
        "steps",
        "end_to_end",
        "visit",
    ),
    "bench/draft": (
        "__init__ trace",
        "bigrams corpora ours rivals",
        "conditions recording walk",
        "heads run tuning",
        "numbers",
        "figure",
        "table",
    ),
    "rust/cpu/src": (
        "error simd",
        "buffer threads",
        "attention matmul",
        "decoder",
        "draft",
        "lib",
    ),
    "rust/cpu/src/draft": (
        "arrays",
        "store",
        "room",
        "drafter",
        "kinds level pending runs upkeep",
        "fill naming",
        "drafting",
        "mod",
    ),
    "rust/engine/src": (
        "clock error forward output request_key",
        "cache config plan",
        "costs request",
        "speculation",
        "background",
        "sequence",
        "scheduling",
        "engine",
        "lib",
    ),
    "rust/engine/src/scheduling": (
        "mod",
        "end fairness outbox running step_times",
        "composition flight priority",
        "admission batch",
        "scheduler",
        "commit early",
        "draft_levels",
    ),
    "rust/engine/src/speculation": (
        "mod",
        "asking bid tiers tree",
        "budget gain grammar_drafts",
        "drafting heads",
        "step",
        "speculator",
        "ask plain_step",
        "questions",
    ),
    "rust/python/src": (
        "enums errors lock router",
        "bigrams corpus options text",
        "grammar replay stops",
        "start",
        "engine",
        "cpu request",
        "lib",
    ),
    "rust/python/src/cpu": (
        "exchange plan tensors",
        "weights",
        "draft",
        "any",
        "decoder",
        "steps",
        "mod",
    ),
    "rust/router/src": (
        "error sync",
        "config failover metrics",
        "fleet",
        "access listen",
        "workers",
        "generation",
        "state",
        "grpc http",
        "admin",
        "app",
        "lib",
    ),
    "rust/router/src/metrics": (
        "mod",
        "compat labels table",
        "circuits drafters facts fleet otlp step_ages tallies",
        "drafting",
        "calls",
        "collector",
    ),
    "rust/router/src/workers": (
        "mod",
        "artifacts calls corpus_list mailbox outgoing",
        "model routes",
        "worker",
        "parked placing",
        "registry",
        "drain",
        "broadcast",
        "session",
        "listener",
    ),
    "rust/router/src/fleet": (
        "address connection keys",
        "entry generations pupils slices wire",
        "records",
        "handle",
        "greeting limits streams",
        "run",
        "mod",
    ),
    "rust/router/src/http": (
        "mod unread unstalled",
        "error server",
        "layers",
        "body convert fallback models",
        "hosts",
        "answer error_map",
        "probes",
        "generate",
        "routes",
    ),
    "rust/sampling/src": (
        "candidate error exp history ln",
        "mass noise",
        "argmax grammar",
        "select",
        "logprobs typical",
        "sampler",
        "lib",
    ),
    "rust/request/src": (
        "model violation",
        "refusal validate",
        "resolve",
        "answer",
        "lib",
    ),
    "rust/types/src": (
        "histogram holdings limits seed sizes unknown_name",
        "named",
        "drop_reason finish_kind packed_section recycle source speculation_mode",
        "options",
        "lib",
    ),
    "rust/trie/src/sources": (
        "head_place mod",
        "corpora recycled text_index",
        "text",
        "asked bigrams hints prediction",
        "all",
    ),
    "rust/trie/src": (
        "error token",
        "config",
        "store",
        "budget sources",
        "score",
        "namespaces",
        "draft",
        "replay",
        "lib",
    ),
}

CIRCLES: dict[tuple[str, ...], str] = {}
"""Files of one room that use each other, with the reason why they may."""

LATE_IMPORTS: dict[str, str] = {
    "python/spectrie/__init__.py": "its public names are loaded on first use, each from a room it may use",
    "python/spectrie/cli/__init__.py": "a command's module is loaded when the command is called",
}
"""Files that import our modules by their names, with the reason why they may."""


def order_of(root: str) -> list[list[str]]:
    """The levels of a root, from the bottom, each with its rooms."""
    return [level.split() for level in ORDERS[root]]
