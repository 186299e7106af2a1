"""The library's one total order: higher key, then later position, then larger id."""

from __future__ import annotations

from skyband.kernels._jit import kernel


@kernel
def beats(key_a: float, position_a: int, id_a: int, key_b: float, position_b: int, id_b: int) -> bool:
    """Whether object a ranks before object b. Keys are never NaN: such rows are dropped on input."""
    if key_a != key_b:
        return key_a > key_b
    if position_a != position_b:
        return position_a > position_b
    return id_a > id_b
