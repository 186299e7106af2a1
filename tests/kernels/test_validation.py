"""Passes over a batch, against the same in plain Python."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from skyband.data.arrow import kernel_array
from skyband.kernels.validation import has_negative_zero, shared_positions


@pytest.mark.parametrize("step", [1, 2, 700])
@pytest.mark.parametrize("sizes", [[0], [1], [3, 0, 2], [511, 512, 513], [2000]])
def test_rows_that_share_a_position_are_found_across_blocks(sizes, step):
    """With long steps few rows share their position, so that most blocks have none."""
    rng = np.random.default_rng(sum(sizes) + step)
    begins = np.cumsum([0, *sizes])
    positions = np.concatenate([np.sort(rng.integers(0, step * max(1, size), size)) for size in sizes])
    wanted = [
        (row, (group, positions[row]))
        for group, (low, high) in enumerate(pairwise(begins))
        for row in range(low, high)
        if (positions[low:high] == positions[row]).sum() > 1
    ]
    places, runs = shared_positions(positions, begins)
    assert places.tolist() == [row for row, _ in wanted]
    numbers = {which: number for number, which in enumerate(dict.fromkeys(which for _, which in wanted), 1)}
    assert runs.tolist() == [numbers[which] for _, which in wanted]


@pytest.mark.parametrize("values", [[], [0.0, 1.0], [-0.0], [0.0] * 700 + [-0.0], [float("nan"), -1.0]])
def test_a_negative_zero_is_found(values):
    wanted = any(value == 0 and np.signbit(value) for value in values)
    assert has_negative_zero(np.array(values).view(np.int64)) == wanted


@pytest.mark.parametrize("array", [pa.array([1.0, 2.0]), pa.array([1.0, None, 3.0]), pa.array([], pa.float64())])
def test_arrays_for_kernels_are_writable_and_share_memory(array):
    """Also of a slice and of memory that is not aligned."""
    for one in (array, array.slice(1), unaligned(array)):
        found = kernel_array(one)
        assert found.flags.writeable
        assert found.flags.aligned
        np.testing.assert_array_equal(found, [np.nan if value is None else value for value in one.to_pylist()])
    if len(array) and not array.null_count:
        assert kernel_array(array).ctypes.data == array.buffers()[1].address


def unaligned(array):
    """The same values, 0 for null, at an odd address."""
    values = b"\0" + array.fill_null(0.0).to_numpy().tobytes()
    return pa.Array.from_buffers(pa.float64(), len(array), [None, pa.py_buffer(values)[1:]])
