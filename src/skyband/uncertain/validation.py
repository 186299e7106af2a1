"""What may be asked of arrays: queries that one run can answer, and how exact they want to be."""

from __future__ import annotations

from skyband.errors import InvalidQueryError
from skyband.queries.workload import Workload
from skyband.uncertain.query import UncertainTopK

__all__ = ["checked_epsilon", "refuse_several_sizes"]


def refuse_several_sizes(workload: Workload[UncertainTopK]) -> None:
    """Refuse queries that cannot be answered from the same arrays."""
    first = workload.queries[0]
    for query in workload:
        if query.window.size != first.window.size:
            raise InvalidQueryError(
                f"queries {first.name!r} and {query.name!r} have different sizes ({first.size!r} and {query.size!r}); "
                "a run answers all queries from the tuples of one window. Make two workloads of them."
            )


def checked_epsilon(epsilon: object) -> float:
    """By how much probabilities may be off."""
    if isinstance(epsilon, bool) or not isinstance(epsilon, int | float) or not 0 <= epsilon < 1:
        raise InvalidQueryError(
            f"epsilon={epsilon!r} must be a number in [0, 1); by so much probabilities may be off, 0 for not at all."
        )
    return float(epsilon)
