"""How large the key-value cache becomes, and what is said where it cannot."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from spectrie.cli.serve import command
from spectrie.errors import ConfigError, ModelError
from spectrie.model import load_runner
from spectrie.model.config.families import ExpertNames
from spectrie.model.config.mixture import MixtureConfig
from spectrie.model.config.model_config import ModelConfig
from spectrie.model.decoder.sizing import CacheSize, size_cache

GIB = 1 << 30


@pytest.fixture(scope="module")
def config(tiny: Path) -> ModelConfig:
    return ModelConfig.from_folder(tiny)


def page_bytes(config: ModelConfig) -> int:
    width = -(-config.head_dim // 16) * 16
    return 2 * config.num_layers * config.num_kv_heads * width * 4 * 16


def size(config: ModelConfig, **asked: Any) -> CacheSize:
    options: dict[str, Any] = {
        "num_pages": None,
        "memory_bytes": None,
        "max_context": None,
        "available_bytes": GIB,
        **asked,
    }
    return size_cache(config, itemsize=4, page_size=16, **options)


def test_by_default_the_cache_takes_two_fifths_of_what_is_free(config: ModelConfig) -> None:
    available = 100 * page_bytes(config)
    found = size(config, available_bytes=available)
    assert (found.num_pages, found.bytes) == (40, 40 * page_bytes(config))
    assert found.max_context == min(config.max_context, 40 * 16)


def test_by_default_the_cache_holds_no_more_than_32_full_contexts(config: ModelConfig) -> None:
    found = size(config, available_bytes=1 << 50, max_context=64)
    assert (found.num_pages, found.max_context) == (32 * 4, 64)


def test_on_a_gpu_the_cache_takes_nine_tenths_of_what_graphs_leave(config: ModelConfig) -> None:
    config = dataclasses.replace(config, num_layers=256 * config.num_layers)
    for free, graphs in ((20 * GIB, GIB), (4 * GIB, GIB // 2)):
        found = size(config, available_bytes=free, on_gpu=True)
        assert found.num_pages == int(0.9 * (free - graphs)) // page_bytes(config)


def test_on_a_gpu_the_largest_forward_has_room_beside_the_cache(config: ModelConfig) -> None:
    config = dataclasses.replace(
        config, num_layers=128, hidden_size=4096, intermediate_size=14336, vocabulary_size=128_256
    )
    # Gate and up, their product, logits and scores of 512 rows, and the parts of attention: of each row and
    # head up to 32 splits, one that a window cuts, one of a later unit, and the tail.
    parts = 4096 * 35 * config.num_heads * (config.head_dim + 2) * 4
    needed = 4096 * 3 * 14336 * 4 + 2 * 512 * 128_256 * 4 + parts
    found = size(config, available_bytes=4 * GIB, on_gpu=True)
    assert 4 * GIB - GIB // 2 - found.bytes > needed
    fewer = size(config, available_bytes=4 * GIB, on_gpu=True, batch_rows=512)
    assert fewer.bytes > found.bytes
    with pytest.raises(ModelError, match="no memory for the key-value cache"):
        size(config, available_bytes=GIB, on_gpu=True)


def test_on_a_gpu_the_results_of_chosen_experts_have_room(config: ModelConfig) -> None:
    names = ExpertNames("router", "experts", "gate", "up", "down")
    # Of Qwen3-30B-A3B: results are wider than the gate's product.
    mixture = MixtureConfig(128, 8, 768, True, frozenset(), names)
    dense = dataclasses.replace(config, hidden_size=2048, head_dim=1024)
    found = size(dataclasses.replace(dense, mixture=mixture), available_bytes=8 * GIB, on_gpu=True)
    # Beside them the heads, before and after attention, and the stream.
    needed = 4096 * (8 * (768 + 2048) * 4 + 2 * (6 + 2) * 1024 * 4 + 2048 * (4 + 4 + 4))
    assert 8 * GIB - GIB - found.bytes > needed
    assert found.bytes < size(dense, available_bytes=8 * GIB, on_gpu=True).bytes


def test_on_a_gpu_the_cache_holds_no_more_than_256_full_contexts(config: ModelConfig) -> None:
    found = size(config, available_bytes=1 << 50, max_context=64, on_gpu=True)
    assert (found.num_pages, found.max_context) == (256 * 4, 64)


def test_what_is_asked_for_is_taken_whatever_is_free(config: ModelConfig) -> None:
    asked = 9 * page_bytes(config) + 1
    assert size(config, memory_bytes=asked, available_bytes=0).num_pages == 9
    assert size(config, num_pages=7, memory_bytes=asked).num_pages == 7


def test_a_context_that_the_model_or_the_cache_does_not_have_is_refused_with_the_limit(
    config: ModelConfig,
) -> None:
    most = config.max_context
    with pytest.raises(ConfigError, match=f"max_context is {most + 1}; allowed .*: 1 to {most}"):
        size(config, max_context=most + 1)
    with pytest.raises(ConfigError, match=r"3 pages holds 48 tokens, expected at least .* 49"):
        size(config, num_pages=3, max_context=49)


def test_too_little_memory_for_a_page_is_named_with_what_one_takes(config: ModelConfig) -> None:
    one = f"one page takes {page_bytes(config)} bytes"
    with pytest.raises(ConfigError, match=f"kv_memory_bytes is 5, but {one}"):
        size(config, memory_bytes=5)
    with pytest.raises(ModelError, match=f"7 free, {one}"):
        size(config, available_bytes=7)


def test_the_cache_takes_no_memory_before_it_is_used(tiny: Path) -> None:
    def resident_bytes() -> int:
        pages = Path("/proc/self/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    # What is loaded once, such as libraries, is not what is asked about.
    load_runner(tiny, dtype="float32", threads=1, num_pages=4)
    before = resident_bytes()
    runner = load_runner(tiny, dtype="float32", threads=1, kv_memory_bytes=2 * GIB)
    assert runner.info.kv_bytes > GIB
    assert resident_bytes() - before < GIB // 8


def test_several_workers_divide_cores_and_free_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spectrie.model.machine.available_memory_bytes", lambda: 10 * GIB)
    monkeypatch.setattr("spectrie.model.machine.num_cores", lambda: 8)
    settings: Any = SimpleNamespace(workers=4, tensor_parallel=1, threads=None, kv_memory=None)
    assert command._share(settings, settings.workers) == {"threads": 2, "kv_memory": GIB}
    settings = SimpleNamespace(workers=4, tensor_parallel=1, threads=3, kv_memory=5)
    assert command._share(settings, settings.workers) == {}
