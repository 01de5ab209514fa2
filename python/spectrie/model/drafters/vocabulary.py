"""Heads that name tokens: the target's own, a cut of it, or one of low rank."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spectrie.errors import ModelError
from spectrie.model.decoder.packing import Product, address
from spectrie.model.drafters.description import CutHead, LowRankHead, Target
from spectrie.model.drafters.names import Tensors
from spectrie.model.files.arrays import Array, equal_numbers, widened

__all__ = ["read_vocabulary"]

_HEAD = "lm_head.weight"
_OFFSETS = ("d2t", "draft_id_to_target_id")
_MASK = "t2d"
_DOWN = ("low_rank.down.weight", "efficient_lm_head_down_proj.weight")
_UP = "efficient_lm_head.weight"
_BASIS = "low_rank.basis.weight"


def read_vocabulary(
    tensors: Tensors,
    target: Target,
    hidden: int,
    named: int | None,
    alive: list[Array],
    where: str,
    *,
    name: str = _HEAD,
) -> CutHead | LowRankHead | None:
    """Returns the head that a file has; None for the target's own.

    `d2t` holds for each draft id how far behind it the target's id is. Without `lm_head` its rows are the
    target's. A low-rank head has a product down to the rank, and one up to the vocabulary or to a basis of
    the target's states (`low_rank.basis.weight` [hidden, rank]), whose product with the target's head is
    taken here.

    Args:
        tensors: The file.
        target: The model.
        hidden: Width of the drafter's states.
        named: `draft_vocab_size` of the configuration.
        alive: Receives what is named by address.
        where: The folder to name in errors.
        name: Name of its own LM head.

    Raises:
        ModelError: The head does not fit the target or the configuration.
    """
    vocabulary = target.config.vocabulary_size
    if tensors.find(*_DOWN) is not None:
        _refuse(tensors, where, "a low-rank head", [*_OFFSETS, _MASK, name])
        return _low_rank(tensors, target, hidden, alive)
    offsets = tensors.find(*_OFFSETS)
    head = tensors.find(name)
    if offsets is None:
        _refuse(tensors, where, "a head without d2t", [_MASK])
        if named not in (None, vocabulary):
            raise ModelError(
                f"{where}: draft_vocab_size is {named}, but there is no d2t; expected one, or "
                f"draft_vocab_size {vocabulary}, the target's"
            )
        if head is None:
            return None
        rows = tensors.take([name], (vocabulary, hidden))
        if equal_numbers(rows, target.head):
            return None
        return CutHead(_product(rows, alive), list(range(vocabulary)), is_targets=False)
    count = tensors.shape(*_OFFSETS)[0]
    if named is not None and named != count:
        raise ModelError(f"{where}: draft_vocab_size is {named}, but d2t has {count} entries")
    ids = np.arange(count) + tensors.numbers(_OFFSETS, (count,))
    _check_ids(tensors, ids, vocabulary, where)
    if head is None:
        if hidden != target.head.shape[1]:
            raise ModelError(
                f"{where}: tensor {name} is missing, and the target's rows have width "
                f"{target.head.shape[1]}, expected {hidden}"
            )
        return CutHead(_product(target.head[ids], alive), ids.tolist(), is_targets=True)
    rows = tensors.take([name], (count, hidden))
    return CutHead(_product(rows, alive), ids.tolist(), is_targets=False)


def _check_ids(tensors: Tensors, ids: NDArray[np.int64], vocabulary: int, where: str) -> None:
    different = len(set(ids.tolist()))
    if different != len(ids) or ids.min() < 0 or ids.max() >= vocabulary:
        raise ModelError(
            f"{where}: d2t gives ids {ids.min()} to {ids.max()}, {different} of {len(ids)} "
            f"different; expected different ids, 0 to {vocabulary - 1} (draft id + d2t = target's id)"
        )
    if tensors.find(_MASK) is None:
        return
    expected = np.zeros(vocabulary, np.bool_)
    expected[ids] = True
    if not np.array_equal(tensors.numbers([_MASK], (vocabulary,)) != 0, expected):
        raise ModelError(f"{where}: t2d names other tokens than d2t")


def _low_rank(tensors: Tensors, target: Target, hidden: int, alive: list[Array]) -> LowRankHead:
    rank = tensors.shape(*_DOWN)[0]
    down = tensors.take(_DOWN, (rank, hidden))
    if tensors.find(_BASIS) is not None:
        up = widened(target.head) @ widened(tensors.take([_BASIS], (hidden, rank)))
    else:
        up = tensors.take([_UP], (target.config.vocabulary_size, rank))
    return LowRankHead(_product(down, alive), _product(up, alive))


def _product(rows: Array, alive: list[Array]) -> Product:
    return Product([address(rows, alive)], None, rows.shape[1])


def _refuse(tensors: Tensors, where: str, what: str, names: list[str]) -> None:
    for name in names:
        found = tensors.find(name)
        if found is not None:
            raise ModelError(f"{where}: {what} has no {found}")
