"""Loads a model folder into a runner that is ready to serve."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from spectrie import _core
from spectrie.errors import ConfigError, ModelError, RankLost
from spectrie.model import gpu, machine
from spectrie.model.config.model_config import ModelConfig
from spectrie.model.decoder.cpu import CpuDecoder, CpuWeights
from spectrie.model.decoder.layout import HEAD
from spectrie.model.decoder.sizing import BATCH_ROWS, GPU_BATCH_ROWS, CacheSize, size_cache
from spectrie.model.drafters import Drafts, layer_tensors
from spectrie.model.files.arrays import ITEM_SIZES
from spectrie.model.files.fingerprint import KERNEL_VERSION, model_hash
from spectrie.model.files.measurements import Measurements, open_measurements
from spectrie.model.files.opening import open_weights
from spectrie.model.parallel.split import Split, with_all_heads
from spectrie.model.plan import TREE_ROWS
from spectrie.model.runner.bigram_prefix import bigram_prefix_of
from spectrie.model.runner.choices import chosen_arithmetic, chosen_device, chosen_dtype
from spectrie.model.runner.drafter_loading import DrafterChoice, DrafterLoading, chosen_drafters
from spectrie.model.runner.drafting import Drafting
from spectrie.model.runner.info import RunnerInfo
from spectrie.model.runner.runner import Runner

if TYPE_CHECKING:
    from spectrie.model.decoder.decoder import Decoder
    from spectrie.model.launch.gpu_model import GpuModel
    from spectrie.model.launch.launcher import Launcher
    from spectrie.model.parallel.group import Group, Seat

__all__ = ["LoadOptions", "Loaded", "assemble", "load"]


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """Options that must be equal on every rank of a model; see `spectrie.model.load_runner`. With an
    arithmetic that is `exact` or `fast`, `why_fast` says why it is not the first, if none was asked for by
    name. Rank 0 alone has drafters."""

    folder: Path
    dtype: str
    device: str
    gpu_arithmetic: str
    threads: int | None
    num_pages: int | None
    kv_memory_bytes: int | None
    max_context: int | None
    max_batch_rows: int | None
    drafters: Sequence[DrafterChoice] = ()
    why_fast: str | None = None

    @property
    def batch_rows(self) -> int:
        """Most rows of a forward: those asked for, else by the device."""
        if self.max_batch_rows is not None:
            return self.max_batch_rows
        return BATCH_ROWS if self.device == "cpu" else GPU_BATCH_ROWS


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
        drafting: Drafters beside the decoder.
        why_no_drafter: Why `auto` put none there.
    """

    decoder: Decoder | CpuDecoder | Launcher
    info: RunnerInfo
    measurements: Measurements
    threads: int
    group: Group | None
    differing: Callable[[], list[str]] = list
    drafting: list[Drafting] = field(default_factory=list)
    why_no_drafter: str | None = None


def load(
    options: LoadOptions,
    *,
    drafters: Sequence[str],
    tensor_parallel: int,
    rank_timeout_s: float,
    progress: Callable[[str], None] | None,
) -> Runner:
    """See `spectrie.model.load_runner`."""
    if tensor_parallel < 1:
        raise ConfigError(f"tensor_parallel is {tensor_parallel}, expected at least 1")
    device = chosen_device(options.device)
    dtype = chosen_dtype(options.dtype, device)
    measurements = open_measurements()
    choices = chosen_drafters(drafters, options.folder, device, tensor_parallel, measurements)
    options = replace(options, drafters=choices)
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
    from spectrie.model.runner.self_check import differing_form

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
    machine.require_torch(f"tensor_parallel is {size}; what several processes exchange")
    from spectrie.model.launch.launcher import Launcher
    from spectrie.model.parallel.lead import LeadDecoder
    from spectrie.model.parallel.ranks import Ranks

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
    del arguments["drafters"]
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
            loaded.drafting,
            loaded.why_no_drafter,
            lambda level: lead.follow(level.kv_move_src, level.kv_move_dst),
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
    rank = 0 if seat is None else seat.rank
    device = "cpu" if on_cpu else str(gpu.device(rank))
    measurements = open_measurements()
    if options.threads is not None and options.threads < 1:
        raise ConfigError(f"threads is {options.threads}, expected at least 1")
    split = None if seat is None else Split.of(config, seat.rank, size)
    report("reading weights")
    weights = open_weights(options.folder, device)
    team = options.threads or max(1, machine.num_cores() // size)
    parts: CpuWeights | GpuModel
    if on_cpu:
        parts = CpuWeights(
            config,
            weights,
            dtype=options.dtype,
            threads=team,
            report=report,
            split=split,
            whole_head=any(choice.folder is not None for choice in options.drafters),
        )
    else:
        from spectrie.model.launch.gpu_model import GpuModel

        parts = GpuModel(
            config,
            weights,
            dtype=options.dtype,
            arithmetic=options.gpu_arithmetic,
            rank=rank,
            split=split,
        )
    for_drafters = layer_tensors(weights, behind=config.num_layers)
    weights.check_all_taken([*for_drafters, *([HEAD] if config.tied_head else [])])
    drafters = DrafterLoading(options.drafters, report)
    drafters.read(options.folder, config, weights)
    del weights
    ready()
    group = partition = None
    if seat is not None:
        from spectrie.model.parallel.group import Group
        from spectrie.model.parallel.partition import Partition

        group = Group(seat, device, options.batch_rows)
        partition = Partition(config, group)
    if not isinstance(parts, CpuWeights):
        drafters.onto(parts)

    itemsize = ITEM_SIZES[options.dtype]

    def sized(extra_page_bytes: int) -> CacheSize:
        return size_cache(
            with_all_heads(config, size),
            itemsize=itemsize,
            page_size=_core.CPU_PAGE_SIZE,
            num_pages=options.num_pages,
            memory_bytes=options.kv_memory_bytes,
            max_context=options.max_context,
            available_bytes=_available_bytes(parts, drafters, options.batch_rows, size),
            on_gpu=not on_cpu,
            batch_rows=options.batch_rows,
            extra_page_bytes=extra_page_bytes,
            ranks=size,
        )

    cache = drafters.sized(sized, config, itemsize)
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
            decoder = parts.decoder(
                cache,
                partition,
                max_rows=options.batch_rows,
                report=report,
            )
    except ValueError as error:
        raise ModelError(f"{options.folder}: {error}") from error
    info = _info(options, config, parts, model_hash(options.folder, measurements), cache, size)
    beside: CpuDecoder | Sequence[Drafts] = decoder if isinstance(decoder, CpuDecoder) else ()
    differing: Callable[[], list[str]] = list
    if not isinstance(parts, CpuWeights):
        from spectrie.model.runner.self_check import differing_products

        beside = parts.drafts(decoder)
        differing = partial(differing_products, parts.weights)
    drafting = drafters.beside(beside, info, measurements)
    return Loaded(decoder, info, measurements, team, group, differing, drafting, drafters.why_none)


def _available_bytes(
    parts: CpuWeights | GpuModel, drafters: DrafterLoading, rows: int, ranks: int
) -> int:
    """Memory for the caches of all ranks, in bytes, in steps of up to `rows` rows."""
    if isinstance(parts, CpuWeights):
        return machine.available_memory_bytes()
    # Each has a GPU of its own.
    return (parts.free_bytes() - drafters.taken(parts, rows)) * ranks


def _info(
    options: LoadOptions,
    config: ModelConfig,
    parts: CpuWeights | GpuModel,
    digest: str,
    size: CacheSize,
    ranks: int,
) -> RunnerInfo:
    if isinstance(parts, CpuWeights):
        device_name, tile_rows = "cpu", TREE_ROWS
        arithmetic = _core.cpu_arithmetic(bfloat16=options.dtype == "bfloat16")
    else:
        device_name, tile_rows = parts.device_name, parts.tile_rows
        arithmetic = parts.fingerprint
    return RunnerInfo(
        vocabulary_size=config.vocabulary_size,
        eos_token_ids=list(config.eos_token_ids),
        bigram_prefix=partial(bigram_prefix_of, options.folder, config),
        max_context=size.max_context,
        num_pages=size.num_pages,
        page_size=_core.CPU_PAGE_SIZE,
        max_batch_rows=options.batch_rows,
        kv_bytes=size.bytes,
        dtype_name=options.dtype,
        device_name=device_name,
        model_hash=digest,
        arithmetic=f"{digest}/{options.dtype}/{arithmetic}/kernels{KERNEL_VERSION}",
        exact=options.device == "cpu" or options.gpu_arithmetic == "exact",
        can_speculate=True,
        ranks=ranks,
        why_fast=options.why_fast,
        tile_rows=tile_rows,
    )
