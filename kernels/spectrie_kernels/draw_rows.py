"""Everything but the logits that decides the tokens drawn from some rows."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import torch

__all__ = ["MAX_PATH_TOKENS", "MAX_VOCABULARY", "DrawRows", "has_device_form"]

MAX_VOCABULARY = 1 << 20
"""Above it, sums of masses could overflow."""
MAX_PATH_TOKENS = 64
"""The longest path of drafts to a row."""

_OF_ROWS = {
    "seed": torch.int64,
    "position": torch.int32,
    "request": torch.int32,
    "temperature": torch.float32,
    "top_k": torch.int32,
    "top_p": torch.float32,
    "min_p": torch.float32,
    "typical_p": torch.float32,
    "repetition": torch.float32,
    "frequency": torch.float32,
    "presence": torch.float32,
    "allowed_row": torch.int32,
}
_LISTS = {
    "bias": (("bias_token", torch.int32), ("bias_value", torch.float32)),
    "seen": (("seen_token", torch.int32), ("seen_count", torch.int32)),
    "path": (("path_token", torch.int32),),
    "masked": (("masked_token", torch.int32),),
}
_STARTS_OF_ROWS = ("path_start", "masked_start")


@dataclass(frozen=True, slots=True)
class DrawRows:
    """Options and histories of rows, flat, contiguous and on the device of their logits.

    A list of `..._start` holds where each one's entries begin, and their number at its end. Token
    ids are below the size of the vocabulary; what no kernel can check without waiting is the
    caller's to keep.

    Attributes:
        seed: int64 [rows], bits of the choice's unsigned seed.
        position: int32 [rows], index of the drawn token in prompt ++ answer.
        request: int32 [rows], whose bias and seen tokens count.
        temperature: float32 [rows]; below 1e-5 the likeliest token is taken.
        top_k: int32 [rows]; 0 keeps all.
        top_p, min_p, typical_p: float32 [rows]; 1, 0 and 1 keep all.
        repetition, frequency, presence: float32 [rows], penalties; 1, 0 and 0 for none.
        bias_start: int32 [requests + 1] into `bias_token` int32 and `bias_value` float32; a token
            once per request.
        seen_start: int32 [requests + 1] into `seen_token` int32, each token of prompt ++ answer
            once, and `seen_count` int32, its occurrences in the answer. Empty without penalties.
        path_start: int32 [rows + 1] into `path_token` int32, the drafts between the answer's end
            and the row, its own token included: at most 64. Empty without penalties.
        masked_start: int32 [rows + 1] into `masked_token` int32, tokens that may not be drawn.
        allowed: int32 [masks, words], bit v % 32 of word v // 32 for token v; tokens past the last
            word may not be drawn.
        allowed_row: int32 [rows], the mask of each row, or -1 where all tokens are allowed.
        cuts: Which of "top_k", "top_p" and "typical_p" any of the rows uses; others are not looked
            at. Each costs some launches.
    """

    seed: torch.Tensor
    position: torch.Tensor
    request: torch.Tensor
    temperature: torch.Tensor
    top_k: torch.Tensor
    top_p: torch.Tensor
    min_p: torch.Tensor
    typical_p: torch.Tensor
    repetition: torch.Tensor
    frequency: torch.Tensor
    presence: torch.Tensor
    bias_start: torch.Tensor
    bias_token: torch.Tensor
    bias_value: torch.Tensor
    seen_start: torch.Tensor
    seen_token: torch.Tensor
    seen_count: torch.Tensor
    path_start: torch.Tensor
    path_token: torch.Tensor
    masked_start: torch.Tensor
    masked_token: torch.Tensor
    allowed: torch.Tensor
    allowed_row: torch.Tensor
    cuts: frozenset[str] = frozenset(("top_k", "top_p", "typical_p"))

    @property
    def has_lists(self) -> bool:
        """Whether there is any bias, seen, path or masked token."""
        return any(getattr(self, entries[0][0]).numel() for entries in _LISTS.values())

    def part(self, begin: int, end: int) -> DrawRows:
        """Returns the rows from `begin` to `end`, which draw what they draw among all; nothing is copied.

        Args:
            begin: A multiple of 4, so that the kernels' copies stay whole.
            end: Behind the last one.
        """
        rows = {name: getattr(self, name)[begin:end] for name in _OF_ROWS}
        starts = {name: getattr(self, name)[begin : end + 1] for name in _STARTS_OF_ROWS}
        return replace(self, **rows, **starts)

    def check(self, rows: int, device: torch.device) -> None:
        """Raises ValueError naming the first field that does not fit `rows` rows on `device`."""
        for name, dtype in _OF_ROWS.items():
            _check_length(name, getattr(self, name), dtype, rows)
        num_requests = self.bias_start.numel() - 1
        for name, entries in _LISTS.items():
            owners = rows if f"{name}_start" in _STARTS_OF_ROWS else num_requests
            _check_length(f"{name}_start", getattr(self, f"{name}_start"), torch.int32, owners + 1)
            length = getattr(self, entries[0][0]).numel()
            for entry, dtype in entries:
                _check_length(entry, getattr(self, entry), dtype, length)
        if self.allowed.dim() != 2 or self.allowed.dtype != torch.int32:
            raise ValueError(
                f"allowed is {self.allowed.dtype} {list(self.allowed.shape)}, expected int32 "
                "[masks, words]"
            )
        for field in fields(self):
            tensor = getattr(self, field.name)
            if not isinstance(tensor, torch.Tensor):
                continue
            if tensor.device != device or not tensor.is_contiguous():
                raise ValueError(
                    f"{field.name} is on {tensor.device}, expected contiguous on {device}"
                )


def _check_length(name: str, tensor: torch.Tensor, dtype: torch.dtype, length: int) -> None:
    if list(tensor.shape) != [length] or tensor.dtype != dtype:
        raise ValueError(
            f"{name} is {tensor.dtype} {list(tensor.shape)}, expected {dtype} [{length}]"
        )


def has_device_form(*, vocabulary: int, path_tokens: int, logprobs: bool) -> bool:
    """Returns whether `draw` can draw the tokens of a row on the device.

    All options of a draw have a device form. What has none needs the row's logits on the host.

    Args:
        vocabulary: Tokens of the vocabulary.
        path_tokens: Drafts between the answer's end and the row.
        logprobs: Whether log-probabilities of the token, or of the prompt, are wanted.
    """
    return vocabulary <= MAX_VOCABULARY and path_tokens <= MAX_PATH_TOKENS and not logprobs
