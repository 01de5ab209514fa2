"""Number formats without torch, against torch's; and files whose tensors lie anywhere."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
import pytest
import torch

from spectrie.model.decoder.packing import address
from spectrie.model.files.arrays import equal_numbers, format_of, rounded, widened
from spectrie.model.files.tensors import as_tensor
from spectrie.model.files.weights import Weights

FORMATS = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}


@pytest.mark.parametrize("name", FORMATS)
def test_numbers_are_rounded_and_widened_as_torch_does(name: str) -> None:
    # Every upper half of a float32, before halves that are rounded down, to even, and up.
    upper = np.arange(1 << 16, dtype=np.uint32) << 16
    for lower in (0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF):
        numbers = (upper | np.uint32(lower)).view(np.float32)
        found = rounded(numbers, name)
        assert format_of(found) == name
        expected = torch.from_numpy(numbers).to(FORMATS[name])
        torch.testing.assert_close(as_tensor(found), expected, rtol=0, atol=0, equal_nan=True)
        wide = torch.from_numpy(widened(found))
        torch.testing.assert_close(wide, expected.float(), rtol=0, atol=0, equal_nan=True)


def test_matrices_are_equal_once_rounded_to_the_format_of_the_second() -> None:
    numbers = torch.randn(5000, 3, generator=torch.Generator().manual_seed(1)).numpy()
    stored = rounded(numbers, "bfloat16")
    assert equal_numbers(numbers, stored)
    assert not equal_numbers(stored, numbers)
    numbers[4999, 2] += 1
    assert not equal_numbers(numbers, stored)
    assert not equal_numbers(numbers[:4999], stored)


def test_tensors_that_are_not_aligned_are_read_and_passed_on_aligned(tmp_path: Path) -> None:
    values = np.arange(6, dtype=np.float32)
    entry = {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}
    header = json.dumps({"a.weight": entry}).encode()
    header += b" " * ((1 - len(header)) % 4)
    data = struct.pack("<Q", len(header)) + header + values.tobytes()
    (tmp_path / "model.safetensors").write_bytes(data)
    array = Weights(tmp_path).take("a.weight", (2, 3))
    assert not array.flags.aligned
    assert np.array_equal(array, values.reshape(2, 3))
    assert torch.equal(as_tensor(array), torch.from_numpy(values).view(2, 3))
    assert address(array, [])[0] % 4 == 0
    assert widened(array).flags.aligned
