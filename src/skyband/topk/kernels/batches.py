"""Whether a shared engine brings its views up to date for each new object, or once for a batch of them.

A view opens or a window ends every few dozen objects if there are a thousand queries, and a new object enters a hundred
views. In a batch, new objects wait while that happens; only the views of windows that end are brought up to date.
"""

from __future__ import annotations

from skyband.kernels._jit import kernel
from skyband.kernels.stream import Ints, Rows
from skyband.topk.kernels.views import BLOCK, Views

SAMPLED = 64  # new objects whose views are counted
TRUSTED = 64  # choices after which they are counted again

# Registers of a batch
LEFT = 0  # rows until the next choice
WAITS = 1  # 1: the views wait for the end of the batch
WAITING = 2  # new objects that wait
LEAST = 3  # new objects that enter at least so many views on average are worth a batch; 0: always
ENTERED = 4  # views that a new object enters, estimated
TRUST = 5  # choices for which the estimate is used
BATCHES = 6  # how many were completed, for tests
LACKS = 7  # 1: sets lack room for references
REGISTERS = 8


@kernel
def choose(registers: Ints, views: Views, held: int, together: int, rows: Rows, at: int) -> int:
    """Return the number of rows of a batch from row `at` on, 0 for none, and set the rows until the next choice.

    A batch takes time in proportion to `held`, and should have `together` objects.
    """
    r, left = registers, rows.keys.size - at
    together = max(BLOCK, together)
    r[WAITS], r[LEFT] = 0, min(left, together)
    if r[LEAST]:
        if left * BLOCK < held:
            return 0  # few rows, for which single steps are faster
        if r[TRUST] == 0:
            entered, r[TRUST] = 0, TRUSTED
            for i in range(SAMPLED):
                key = rows.keys[at + left * i // SAMPLED]
                for bar in views.bars:
                    entered += key >= bar
            r[ENTERED] = entered // SAMPLED
        r[TRUST] -= 1
        if r[ENTERED] < r[LEAST] or left * r[ENTERED] < held:
            return 0
    # The last rows of a call do not make a separate batch.
    return int(left if 2 * left < 3 * together else together)


@kernel
def begin(registers: Ints, rows: int) -> None:
    """Begin a batch of so many rows."""
    registers[WAITS], registers[LEFT] = 1, rows
