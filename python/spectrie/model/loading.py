"""From a model folder to a runner that is ready to serve."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch

from spectrie.errors import ConfigError, ModelError
from spectrie.model import machine
from spectrie.model.beginning import beginning_of
from spectrie.model.config import ModelConfig
from spectrie.model.decoder import Decoder, Layer
from spectrie.model.fingerprint import KERNEL_VERSION, model_hash
from spectrie.model.linear import (
    BLOCK_ROWS,
    HEAD_ROWS,
    LEAST_ROWS,
    Linear,
    Packing,
    choose_packing,
    pack,
)
from spectrie.model.measurements import Measurements
from spectrie.model.operators import OperatorSettings, create_operators
from spectrie.model.runner import Runner, RunnerInfo
from spectrie.model.sizing import CacheSize, size_cache
from spectrie.model.store import cache_folder
from spectrie.model.weights import Weights

__all__ = ["load"]

_log = logging.getLogger("spectrie.model")
PAGE_SIZE = 16


@dataclass(frozen=True, slots=True)
class _Place:
    """Where and in what a model runs, and what is known about that."""

    device: torch.device
    dtype: torch.dtype
    measurements: Measurements


def load(
    folder: Path,
    *,
    dtype: str,
    device: str,
    threads: int | None,
    num_pages: int | None,
    kv_memory_bytes: int | None,
    max_context: int | None,
    max_batch_rows: int,
    progress: Callable[[str], None] | None,
) -> Runner:
    """See `spectrie.model.load_runner`."""
    report = progress or (lambda line: None)
    config = ModelConfig.from_folder(folder)
    place = _Place(_device(device), _dtype(dtype, _device(device)), _open_measurements())
    if threads is not None and threads < 1:
        raise ConfigError(f"threads is {threads}, expected at least 1")
    torch.set_num_threads(threads or machine.num_cores())
    report("reading weights")
    weights = Weights(folder)
    loader = _Loader(config, weights, place, report)
    decoder_parts = loader.layers()
    final_norm = loader.norm("model.norm.weight", config.hidden_size)
    embedding, head = loader.embedding_and_head()
    if place.device.type == "cpu":
        from spectrie import _core

        _core.cpu_use_huge_pages()
    weights.check_all_taken(["lm_head.weight"] if config.tied_head else [])
    size = size_cache(
        config,
        itemsize=place.dtype.itemsize,
        page_size=PAGE_SIZE,
        num_pages=num_pages,
        memory_bytes=kv_memory_bytes,
        max_context=max_context,
        available_bytes=_available_bytes(place.device),
    )
    settings = OperatorSettings(
        config=config,
        dtype=place.dtype,
        device=place.device,
        num_pages=size.num_pages,
        page_size=PAGE_SIZE,
        max_context=size.max_context,
        threads=threads or machine.num_cores(),
        head_norms=loader.head_norms,
    )
    try:
        operators = create_operators(settings)
    except ValueError as error:
        raise ModelError(f"{folder}: {error}") from error
    decoder = Decoder(
        config,
        embedding_table=embedding,
        layers=decoder_parts,
        final_norm=final_norm,
        head=head,
        operators=operators,
    )
    info = _info(folder, config, place, size, loader, max_batch_rows)
    runner = Runner(decoder, info, place.measurements)
    if threads is None and place.device.type == "cpu":
        report("choosing the number of threads")
        runner.choose_threads(machine.num_cores())
    return runner


def _open_measurements() -> Measurements:
    try:
        return Measurements(cache_folder() / "measurements.json")
    except ModelError:
        return Measurements(None)


def _device(name: str) -> torch.device:
    if name not in ("auto", "cpu", "cuda"):
        raise ConfigError(f"device is {name!r}, allowed: auto, cpu, cuda")
    has_cuda = torch.cuda.is_available()
    if name == "cuda" and not has_cuda:
        raise ConfigError("device is 'cuda', but torch sees no CUDA device")
    return torch.device("cuda" if name == "cuda" or (name == "auto" and has_cuda) else "cpu")


def _dtype(name: str, device: torch.device) -> torch.dtype:
    known = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
    if name == "auto":
        # By CPU feature and never by timing, so that equal machines compute equal bits.
        fast = device.type == "cuda" or machine.cpu_flags() & {"avx512_bf16", "amx_bf16"}
        return torch.bfloat16 if fast else torch.float32
    if name not in known:
        raise ConfigError(f"dtype is {name!r}, allowed: auto, float32, bfloat16, float16")
    if name == "float16" and device.type == "cpu":
        raise ConfigError("dtype is 'float16', allowed on a CPU: auto, float32, bfloat16")
    return known[name]


def _available_bytes(device: torch.device) -> int:
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return machine.available_memory_bytes()


class _Loader:
    """Takes a checkpoint's tensors in the order of use and packs them."""

    def __init__(
        self, config: ModelConfig, weights: Weights, place: _Place, report: Callable[[str], None]
    ) -> None:
        self._config = config
        self._weights = weights
        self._place = place
        self._report = report
        self.packings: dict[str, Packing] = {}
        self.head_norms: tuple[tuple[torch.Tensor, torch.Tensor] | None, ...] = ()

    def norm(self, name: str, width: int) -> torch.Tensor:
        return self._weights.take(name, (width,)).float().clone().to(self._place.device)

    def _linear(self, names: list[tuple[str, int]], in_features: int, bias: bool) -> Linear:
        """One product of the stacked weights of several projections `(name, out features)`."""
        dtype, device = self._place.dtype, self._place.device
        parts = [self._weights.take(f"{name}.weight", (out, in_features)) for name, out in names]
        weight = torch.cat([part.to(device, dtype) for part in parts])
        biases = None
        if bias:
            taken = [self._weights.take(f"{name}.bias", (out,)) for name, out in names]
            biases = torch.cat([part.to(device, dtype) for part in taken])
        return self._pack(weight, biases)

    def _pack(
        self, weight: torch.Tensor, bias: torch.Tensor | None, max_rows: int = BLOCK_ROWS
    ) -> Linear:
        if self._place.device.type != "cpu":
            return pack(weight, bias, Packing("plain"))
        shape = f"{weight.shape[1]}x{weight.shape[0]}{'' if bias is None else '+bias'}"
        packing = self.packings.get(shape)
        if packing is None:
            packing = self._choose(shape, weight, bias, max_rows)
            self.packings[shape] = packing
        return pack(weight, bias, packing)

    def _choose(
        self, shape: str, weight: torch.Tensor, bias: torch.Tensor | None, max_rows: int
    ) -> Packing:
        store = self._place.measurements
        key = (
            f"packing {shape} {weight.dtype} rows{LEAST_ROWS}-{max_rows} {machine.cpu_class()} "
            f"torch{torch.__version__} threads{torch.get_num_threads()}"
        )
        known = store.get(key)
        if isinstance(known, list) and len(known) == 2:
            return Packing(str(known[0]), int(known[1]))
        self._report(f"checking that rows of {shape} products are independent")
        packing = choose_packing(weight, bias, max_rows)
        store.put(key, [packing.kind, packing.rows])
        if not packing.exact:
            _log.warning(
                "no packing keeps rows of %s products independent: speculation stays off", shape
            )
        return packing

    def layers(self) -> tuple[Layer, ...]:
        layers, norms = [], []
        for index in range(self._config.num_layers):
            self._report(f"packing layer {index + 1} of {self._config.num_layers}")
            layers.append(self._layer(f"model.layers.{index}"))
            norms.append(self._head_norms(f"model.layers.{index}.self_attn"))
        self.head_norms = tuple(norms)
        return tuple(layers)

    def _layer(self, prefix: str) -> Layer:
        config = self._config
        hidden, inner = config.hidden_size, config.intermediate_size
        queries = config.num_heads * config.head_dim
        keys = config.num_kv_heads * config.head_dim
        attention, mlp = f"{prefix}.self_attn", f"{prefix}.mlp"
        qkv = [
            (f"{attention}.{name}_proj", size)
            for name, size in zip("qkv", (queries, keys, keys), strict=True)
        ]
        return Layer(
            attention_norm=self.norm(f"{prefix}.input_layernorm.weight", hidden),
            qkv=self._linear(qkv, hidden, config.qkv_bias),
            output=self._linear([(f"{attention}.o_proj", hidden)], queries, config.output_bias),
            mlp_norm=self.norm(f"{prefix}.post_attention_layernorm.weight", hidden),
            gate_up=self._linear(
                [(f"{mlp}.gate_proj", inner), (f"{mlp}.up_proj", inner)], hidden, config.mlp_bias
            ),
            down=self._linear([(f"{mlp}.down_proj", hidden)], inner, config.mlp_bias),
        )

    def _head_norms(self, prefix: str) -> tuple[torch.Tensor, torch.Tensor] | None:
        if not self._config.head_norm:
            return None
        width = self._config.head_dim
        return (
            self.norm(f"{prefix}.q_norm.weight", width),
            self.norm(f"{prefix}.k_norm.weight", width),
        )

    def embedding_and_head(self) -> tuple[torch.Tensor, Linear]:
        self._report("packing the head")
        shape = (self._config.vocabulary_size, self._config.hidden_size)
        embedding = self._weights.take("model.embed_tokens.weight", shape).to(self._place.device)
        head = embedding if self._config.tied_head else self._weights.take("lm_head.weight", shape)
        return embedding, self._pack(
            head.to(self._place.device, self._place.dtype), None, HEAD_ROWS
        )


def _info(
    folder: Path,
    config: ModelConfig,
    place: _Place,
    size: CacheSize,
    loader: _Loader,
    max_batch_rows: int,
) -> RunnerInfo:
    digest = model_hash(folder, place.measurements)
    dtype_name = str(place.dtype).removeprefix("torch.")
    device_name = "cpu"
    arithmetic = machine.cpu_class()
    if place.device.type == "cuda":
        device_name = torch.cuda.get_device_name(place.device)
        arithmetic = device_name
    else:
        from spectrie import _core

        arithmetic += f":{_core.cpu_arithmetic()}"
    packing = ",".join(f"{shape}={choice}" for shape, choice in sorted(loader.packings.items()))
    return RunnerInfo(
        vocabulary_size=config.vocabulary_size,
        eos_token_ids=list(config.eos_token_ids),
        beginning=partial(beginning_of, folder, config),
        max_context=size.max_context,
        num_pages=size.num_pages,
        page_size=PAGE_SIZE,
        max_batch_rows=max_batch_rows,
        kv_bytes=size.bytes,
        dtype_name=dtype_name,
        device=place.device,
        device_name=device_name,
        model_hash=digest,
        arithmetic=(
            f"{digest}/{dtype_name}/{arithmetic}/torch{torch.__version__}/"
            f"{packing}/kernels{KERNEL_VERSION}"
        ),
        exact=place.device.type == "cpu" and all(p.exact for p in loader.packings.values()),
    )
