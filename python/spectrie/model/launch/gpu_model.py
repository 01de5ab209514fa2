"""A model on a GPU, or one rank's part of it: its weights there, and the decoder of its steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch

from spectrie import _core
from spectrie.model import gpu
from spectrie.model.config.model_config import ModelConfig
from spectrie.model.decoder.decoder import Decoder, DecoderWeights
from spectrie.model.decoder.sizing import CacheSize
from spectrie.model.drafters.description import Drafter
from spectrie.model.files.weights import Weights
from spectrie.model.launch.drafts.memory import fixed_bytes
from spectrie.model.launch.drafts.weights import DraftWeights
from spectrie.model.launch.gpu_drafts import GpuDrafts
from spectrie.model.launch.launcher import Launcher
from spectrie.model.operators import OperatorSettings
from spectrie.model.operators.gpu import GpuOperators
from spectrie.model.step.device import open_device
from spectrie_kernels import MAX_TREE_ROWS, AttentionTiles

if TYPE_CHECKING:
    from spectrie.model.parallel.partition import Partition
    from spectrie.model.parallel.split import Split

__all__ = ["GpuModel"]


class GpuModel:
    """The only way from loading to torch.

    Attributes:
        weights: The tensors on the device.
    """

    def __init__(
        self,
        config: ModelConfig,
        weights: Weights,
        *,
        dtype: str,
        arithmetic: str,
        rank: int,
        split: Split | None,
    ) -> None:
        """Copies the weights, or one rank's part of them, to the rank's GPU.

        Args:
            config: The whole model.
            weights: Its checkpoint.
            dtype: Name of the number format.
            arithmetic: `exact` or `fast`.
            rank: Which GPU.
            split: One rank's part; None for the whole.

        Raises:
            ModelError: A tensor is missing or has another shape.
        """
        self._config = config
        self._arithmetic = arithmetic
        self._device = gpu.device(rank)
        self._dtype: torch.dtype = getattr(torch, dtype)
        gpu.use(self._device)
        exact = arithmetic == "exact"
        self.weights = DecoderWeights(
            config, weights, self._dtype, self._device, split, exact=exact
        )
        self._drafters: list[tuple[Drafter, DraftWeights]] = []

    def add_drafter(self, drafter: Drafter) -> None:
        """Copies a drafter's weights to the GPU, for the decoder that follows.

        Raises:
            ModelError: Drafters of this form do not run on a GPU.
        """
        exact = self._arithmetic == "exact"
        weights = DraftWeights(drafter, self.weights, self._dtype, self._device, exact=exact)
        self._drafters.append((drafter, weights))

    def drop_drafter(self, drafter: Drafter) -> None:
        """Drops the weights of a drafter, if they are there."""
        self._drafters = [one for one in self._drafters if one[0] is not drafter]

    def drafter_bytes(self, drafter: Drafter, max_rows: int) -> int:
        """Returns what a drafter takes beside its weights and beside pages, in steps of up to `max_rows` rows."""
        return fixed_bytes(drafter, self._config, self._dtype.itemsize, max_rows)

    @property
    def device_name(self) -> str:
        """The maker's name of the GPU."""
        return gpu.name(self._device)

    @property
    def fingerprint(self) -> str:
        """What the bits of its arithmetic depend on besides the model."""
        versions = f"torch{torch.__version__}/{gpu.compiler() or 'torch'}"
        return f"{self.device_name}/{versions}/{self._arithmetic}"

    @property
    def tile_rows(self) -> int:
        """Nodes of a tile of attention."""
        config = self._config
        group = config.num_heads // config.num_kv_heads
        heads = (config.num_heads, config.num_kv_heads)
        tiles = AttentionTiles.of(config.head_dim, self._dtype.itemsize, heads=heads)
        return tiles.heights(group, MAX_TREE_ROWS)[0] // group

    def free_bytes(self) -> int:
        """Returns the memory of the GPU that no process uses."""
        return gpu.free_bytes(self._device)

    def decoder(
        self,
        size: CacheSize,
        partition: Partition | None,
        *,
        max_rows: int,
        report: Callable[[str], None],
    ) -> Decoder | Launcher:
        """Returns what computes the steps, with an empty cache; on one GPU it launches them, and the drafters stand
        beside it.

        Args:
            size: Size of the cache.
            partition: Parts of all ranks; None for a single one.
            max_rows: Most rows of a forward.
            report: Receives one line per stage.
        """
        config = self._config
        operators = GpuOperators(
            OperatorSettings(
                config=config if partition is None else partition.own.local(config),
                dtype=self._dtype,
                device=self._device,
                num_pages=size.num_pages,
                page_size=_core.CPU_PAGE_SIZE,
                max_context=size.max_context,
                model_kv_heads=config.num_kv_heads,
                head_norms=self.weights.head_norms,
            )
        )
        decoder = Decoder(self.weights, operators, partition)
        if partition is not None or gpu.compiler() is None:
            return decoder
        launcher = Launcher(decoder, operators, open_device(self._device), max_rows=max_rows)
        for _, weights in self._drafters:
            launcher.add_drafter(weights)
        # A launcher that loses one frees its memory.
        self._drafters = []
        launcher.record(report)
        return launcher

    def drafts(self, decoder: object) -> list[GpuDrafts]:
        """Returns the drafters beside a decoder that `decoder` gave, in the order in which they were added."""
        if not isinstance(decoder, Launcher):
            return []
        return [GpuDrafts(decoder, number) for number in decoder.drafts.numbers]
