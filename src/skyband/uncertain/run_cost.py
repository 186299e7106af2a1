"""What a run costs: a fixed part, a part per rank of its k, and a part per answer.

The paper charges k for a run. Measured, a run over 10,000 tuples mostly costs its fixed part (selecting and sorting the
best tuples), so that the number of runs matters more than their k. ``python -m benchmarks uncertain-costs`` measures
and fits the parts, and reports the errors of the estimates.

A stored state contains the name of its plan, and the plan is computed again when the state is loaded. So a change of
these numbers, or of the limits in `scheduling`, changes the plans of stored states with ``plan="auto"``.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["MEASURED", "RunCost"]


class RunCost(NamedTuple):
    """The parts of a run's cost, in nanoseconds."""

    fixed: int
    per_rank: int
    per_answer: int

    def of(self, k: int, answers: int) -> int:
        """Return the cost of a run for k that answers so many queries.

        >>> MEASURED.of(100, 20)
        720000
        """
        return self.fixed + self.per_rank * k + self.per_answer * answers


MEASURED = RunCost(fixed=300_000, per_rank=1_000, per_answer=16_000)
