"""Loads a model folder into a runner that is ready to serve."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path

import torch

from spectrie import _core
from spectrie.errors import ConfigError, ModelError, RankLost
from spectrie.model import gpu, machine
from spectrie.model.config.model_config import ModelConfig
from spectrie.model.decoder.cpu import CpuDecoder, CpuWeights
from spectrie.model.decoder.decoder import Decoder, DecoderWeights
from spectrie.model.decoder.layout import HEAD
from spectrie.model.decoder.sizing import BATCH_ROWS, GPU_BATCH_ROWS, CacheSize, size_cache
from spectrie.model.drafters import layer_tensors
from spectrie.model.files.fingerprint import KERNEL_VERSION, model_hash
from spectrie.model.files.measurements import Measurements, open_measurements
from spectrie.model.files.random_weights import open_weights
from spectrie.model.launch.launcher import Launcher
from spectrie.model.operators import OperatorSettings
from spectrie.model.operators.gpu import GpuOperators
from spectrie.model.parallel import Group, LeadDecoder, Partition, Ranks, Seat, Split
from spectrie.model.runner.bigram_prefix import bigram_prefix_of
from spectrie.model.runner.choices import chosen_arithmetic, chosen_device, chosen_dtype
from spectrie.model.runner.drafter_loading import DrafterChoice, DrafterLoading, chosen_drafter
from spectrie.model.runner.drafting import Drafting
from spectrie.model.runner.info import RunnerInfo
from spectrie.model.runner.runner import Runner
from spectrie.model.runner.self_check import differing_form, differing_products
from spectrie.model.step.device import open_device
from spectrie_kernels import MAX_TREE_ROWS, AttentionTiles

__all__ = ["LoadOptions", "Loaded", "assemble", "load"]


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """Options that must be equal on every rank of a model; see `spectrie.model.load_runner`. With an
    arithmetic that is `exact` or `fast`, `why_fast` says why it is not the first, if none was asked for by
    name. Several ranks have no drafter."""

    folder: Path
    dtype: str
    device: str
    gpu_arithmetic: str
    threads: int | None
    num_pages: int | None
    kv_memory_bytes: int | None
    max_context: int | None
    max_batch_rows: int | None
    drafter: DrafterChoice = field(default_factory=DrafterChoice)
    why_fast: str | None = None

    @property
    def batch_rows(self) -> int:
        """Most rows of a forward: those asked for, else by the device."""
        if self.max_batch_rows is not None:
            return self.max_batch_rows
        return BATCH_ROWS if self.device == "cpu" else GPU_BATCH_ROWS


@dataclass(frozen=True, slots=True)
class _Place:
    """The device and number format of a model, and the measurements of this machine."""

    device: torch.device
    dtype: torch.dtype
    measurements: Measurements


@dataclass(frozen=True, slots=True)
class Loaded:
    """A model, or one rank's part of it, ready to run.

    Attributes:
        decoder: Computes the forward.
        info: Facts about the whole model.
        measurements: Results of measurements on this machine.
        threads: Threads that share a forward in this process.
        group: The ranks; None for a single one.
        differing: Names the products in which a row depends on the others, on a GPU that should be exact.
        drafting: A drafter beside the decoder.
        why_no_drafter: Why `auto` put none there.
    """

    decoder: Decoder | CpuDecoder | Launcher
    info: RunnerInfo
    measurements: Measurements
    threads: int
    group: Group | None
    differing: Callable[[], list[str]] = list
    drafting: Drafting | None = None
    why_no_drafter: str | None = None


def load(
    options: LoadOptions,
    *,
    drafter: str,
    tensor_parallel: int,
    rank_timeout_s: float,
    progress: Callable[[str], None] | None,
) -> Runner:
    """See `spectrie.model.load_runner`."""
    if tensor_parallel < 1:
        raise ConfigError(f"tensor_parallel is {tensor_parallel}, expected at least 1")
    device = chosen_device(options.device)
    dtype = str(chosen_dtype(options.dtype, device)).removeprefix("torch.")
    choice = chosen_drafter(drafter, options.folder, device, tensor_parallel, open_measurements())
    options = replace(options, drafter=choice)
    is_asked = options.gpu_arithmetic == "exact"
    arithmetic, why_fast = chosen_arithmetic(options.gpu_arithmetic, device)
    options = replace(
        options, dtype=dtype, device=device, gpu_arithmetic=arithmetic, why_fast=why_fast
    )
    ranks = _RankOptions(tensor_parallel, rank_timeout_s)
    runner = _load_checked(options, ranks, is_asked, progress)
    if options.threads is None and device == "cpu":
        if progress is not None:
            progress("choosing the number of threads")
        runner.choose_threads(max(1, machine.num_cores() // tensor_parallel))
    return runner


@dataclass(frozen=True, slots=True)
class _RankOptions:
    """How many ranks share a model, and how long each waits for the others in a forward."""

    size: int
    timeout_s: float


def _load_checked(
    options: LoadOptions,
    ranks: _RankOptions,
    is_asked: bool,
    progress: Callable[[str], None] | None,
) -> Runner:
    """Loads a model; where exact arithmetic turns out not to be, and was not asked for by name, with that of
    `fast`."""
    report = progress or (lambda line: None)
    alone = ranks.size == 1
    runner, loaded = (
        _load_alone(options, progress) if alone else _load_ranks(options, ranks, progress)
    )
    if not (runner.exact and runner.info.on_gpu):
        return runner
    report("checking that rows do not change one another's bits")
    start = time.perf_counter()
    try:
        form = differing_form(runner, is_asked=is_asked)
    except BaseException:
        runner.close()
        raise
    if form is None:
        report(f"rows have the same bits in all steps: {time.perf_counter() - start:.1f} s")
        return runner
    products = ", ".join(loaded.differing()) or "none of the products, so attention or a norm"
    why = f"the logits of a row {form} have other bytes than those of the row alone (products: {products})"
    runner.close()
    if is_asked:
        raise ConfigError(
            f"gpu_arithmetic is 'exact', but on {runner.device_name} {why}: choose 'fast', and please "
            "report this"
        )
    report(f"reading weights again for fast arithmetic: {why}")
    del runner, loaded
    fast = replace(options, gpu_arithmetic="fast", why_fast=why)
    return _load_checked(fast, ranks, False, progress)


def _load_alone(
    options: LoadOptions, progress: Callable[[str], None] | None
) -> tuple[Runner, Loaded]:
    """Loads a model into this process."""
    loaded = assemble(options, progress=progress)
    runner = Runner(
        loaded.decoder,
        loaded.info,
        loaded.measurements,
        loaded.threads,
        drafting=loaded.drafting,
        why_no_drafter=loaded.why_no_drafter,
    )
    return runner, loaded


def _load_ranks(
    options: LoadOptions, given: _RankOptions, progress: Callable[[str], None] | None
) -> tuple[Runner, Loaded]:
    """Loads a model into this process and those that it starts."""
    size = given.size
    # Before anything is started.
    Split.of(ModelConfig.from_folder(options.folder), 0, size)
    if options.device == "cpu" and machine.num_cores() < size:
        raise ConfigError(
            f"tensor_parallel is {size}, but this process may use {machine.num_cores()} cores, and "
            f"each rank needs one: use at most {machine.num_cores()}"
        )
    if options.device == "cuda" and gpu.count() < size:
        raise ConfigError(f"tensor_parallel is {size}, but torch sees {gpu.count()} CUDA devices")
    arguments = asdict(options) | {"folder": str(options.folder)}
    del arguments["drafter"]
    ranks = Ranks(size, given.timeout_s, arguments)
    try:
        loaded = assemble(options, seat=ranks.seat, ready=ranks.wait_ready, progress=progress)
        if loaded.group is None or isinstance(loaded.decoder, Launcher):
            raise RankLost("rank 0 without a group")
        lead = LeadDecoder(loaded.decoder, loaded.group, ranks)
        runner = Runner(
            lead,
            loaded.info,
            loaded.measurements,
            loaded.threads,
            lead.close,
            lead.check,
            why_no_drafter=loaded.why_no_drafter,
        )
        return runner, loaded
    except BaseException:
        ranks.close(at_once=True)
        raise


def assemble(
    options: LoadOptions,
    *,
    seat: Seat | None = None,
    ready: Callable[[], None] = lambda: None,
    progress: Callable[[str], None] | None = None,
) -> Loaded:
    """Loads a model, or the part of it that one rank computes.

    Args:
        options: With neither dtype nor device `auto`; threads are those of this rank, the cache's
            bytes the sum of all ranks.
        seat: This rank's place; None for a single rank.
        ready: Called once the weights are read, before this rank waits for the others.
        progress: Receives one line per stage.

    Raises:
        ConfigError: An argument is out of range, or the machine cannot satisfy it.
        ModelError: The model cannot be read or is not supported.
        RankLost: Another rank did not join.
    """
    report = progress or (lambda line: None)
    config = ModelConfig.from_folder(options.folder)
    size = 1 if seat is None else seat.size
    on_cpu = options.device == "cpu"
    exact_gpu = not on_cpu and options.gpu_arithmetic == "exact"
    place = _Place(
        torch.device("cpu") if on_cpu else gpu.device(0 if seat is None else seat.rank),
        chosen_dtype(options.dtype, options.device),
        open_measurements(),
    )
    if options.threads is not None and options.threads < 1:
        raise ConfigError(f"threads is {options.threads}, expected at least 1")
    split = None if seat is None else Split.of(config, seat.rank, size)
    report("reading weights")
    weights = open_weights(options.folder, place.device)
    team = options.threads or max(1, machine.num_cores() // size)
    parts: CpuWeights | DecoderWeights
    if on_cpu:
        parts = CpuWeights(
            config, weights, dtype=place.dtype, threads=team, report=report, split=split
        )
    else:
        gpu.use(place.device)
        parts = DecoderWeights(config, weights, place.dtype, place.device, split, exact=exact_gpu)
    for_drafters = layer_tensors(weights, behind=config.num_layers)
    weights.check_all_taken([*for_drafters, *([HEAD] if config.tied_head else [])])
    drafter = DrafterLoading(options.drafter, report)
    drafter.read(options.folder, config, weights)
    del weights
    ready()
    group = None if seat is None else Group(seat, place.device, options.batch_rows)
    partition = None if group is None else Partition(config, group)
    available = machine.available_memory_bytes() if on_cpu else gpu.free_bytes(place.device) * size

    def sized(extra_page_bytes: int) -> CacheSize:
        return size_cache(
            _with_all_heads(config, size),
            itemsize=place.dtype.itemsize,
            page_size=_core.CPU_PAGE_SIZE,
            num_pages=options.num_pages,
            memory_bytes=options.kv_memory_bytes,
            max_context=options.max_context,
            available_bytes=available,
            on_gpu=not on_cpu,
            batch_rows=options.batch_rows,
            extra_page_bytes=extra_page_bytes,
            ranks=size,
        )

    cache = drafter.sized(sized, config, place.dtype)
    if group is not None:
        # The ranks' free memory differs; rank 0's decides.
        cache = CacheSize(*group.agree([cache.num_pages, cache.bytes, cache.max_context]))
    try:
        decoder: Decoder | CpuDecoder | Launcher
        if isinstance(parts, CpuWeights):
            decoder = CpuDecoder(
                config,
                parts,
                cache,
                max_batch_rows=options.batch_rows,
                threads=team,
                partition=partition,
            )
        else:
            settings = _gpu_settings(config, parts, cache, place, partition)
            operators = GpuOperators(settings)
            decoder = Decoder(parts, operators, partition)
            if partition is None and gpu.compiler() is not None:
                device = open_device(place.device)
                decoder = Launcher(decoder, operators, device, max_rows=options.batch_rows)
                decoder.record(report)
    except ValueError as error:
        raise ModelError(f"{options.folder}: {error}") from error
    info = _info(options, config, place, cache, size)
    drafting = drafter.beside(decoder, info, place.measurements)
    differing: Callable[[], list[str]] = list
    if isinstance(parts, DecoderWeights):
        differing = partial(differing_products, parts)
    return Loaded(
        decoder, info, place.measurements, team, group, differing, drafting, drafter.why_none
    )


def _with_all_heads(config: ModelConfig, size: int) -> ModelConfig:
    """Returns `config` with as many key-value heads as the caches of all ranks hold together."""
    heads = sum(Split.of(config, rank, size).kv_heads.count for rank in range(size))
    return replace(config, num_kv_heads=heads)


def _gpu_settings(
    config: ModelConfig,
    parts: DecoderWeights,
    size: CacheSize,
    place: _Place,
    partition: Partition | None,
) -> OperatorSettings:
    return OperatorSettings(
        config=config if partition is None else partition.own.local(config),
        dtype=place.dtype,
        device=place.device,
        num_pages=size.num_pages,
        page_size=_core.CPU_PAGE_SIZE,
        max_context=size.max_context,
        model_kv_heads=config.num_kv_heads,
        head_norms=parts.head_norms,
    )


def _gpu_tile_rows(config: ModelConfig, dtype: torch.dtype) -> int:
    """Nodes of a tile of attention on a GPU."""
    group = config.num_heads // config.num_kv_heads
    heads = (config.num_heads, config.num_kv_heads)
    tiles = AttentionTiles.of(config.head_dim, dtype.itemsize, heads=heads)
    return tiles.heights(group, MAX_TREE_ROWS)[0] // group


def _info(
    options: LoadOptions, config: ModelConfig, place: _Place, size: CacheSize, ranks: int
) -> RunnerInfo:
    digest = model_hash(options.folder, place.measurements)
    dtype_name = str(place.dtype).removeprefix("torch.")
    on_cpu = options.device == "cpu"
    if on_cpu:
        device_name = "cpu"
        arithmetic = _core.cpu_arithmetic(bfloat16=place.dtype == torch.bfloat16)
    else:
        device_name = gpu.name(place.device)
        arithmetic = f"{device_name}/torch{torch.__version__}/{gpu.compiler() or 'torch'}/{options.gpu_arithmetic}"
    return RunnerInfo(
        vocabulary_size=config.vocabulary_size,
        eos_token_ids=list(config.eos_token_ids),
        bigram_prefix=partial(bigram_prefix_of, options.folder, config),
        max_context=size.max_context,
        num_pages=size.num_pages,
        page_size=_core.CPU_PAGE_SIZE,
        max_batch_rows=options.batch_rows,
        kv_bytes=size.bytes,
        dtype_name=dtype_name,
        device_name=device_name,
        model_hash=digest,
        arithmetic=f"{digest}/{dtype_name}/{arithmetic}/kernels{KERNEL_VERSION}",
        exact=on_cpu or options.gpu_arithmetic == "exact",
        can_speculate=True,
        ranks=ranks,
        why_fast=options.why_fast,
        tile_rows=MAX_TREE_ROWS if on_cpu else _gpu_tile_rows(config, place.dtype),
    )
