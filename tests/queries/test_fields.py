"""Whatever stands where a number belongs: a query is made and can be run, or it is refused in the library's words."""

from __future__ import annotations

import datetime as dt
import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import skyband as sb

STREAMS = {"streams": ["a", "b"]}
FIELDS = {
    "topk k": lambda value: sb.TopK(k=value, size=10),
    "topk size": lambda value: sb.TopK(k=1, size=value),
    "topk slide": lambda value: sb.TopK(k=1, size=10, slide=value),
    "topk count origin": lambda value: sb.TopK(k=1, size=10, origin=value),
    "topk time origin": lambda value: sb.TopK(k=1, size="10 seconds", origin=value),
    "topk full_only": lambda value: sb.TopK(k=1, size=10, full_only=value),
    "aggregate k": lambda value: sb.AggregateTopK(k=value, size=10),
    "aggregate size": lambda value: sb.AggregateTopK(k=1, size=value),
    "aggregate slide": lambda value: sb.AggregateTopK(k=1, size=10, slide=value),
    "aggregate origin": lambda value: sb.AggregateTopK(k=1, size=10, origin=value),
    "incomplete k": lambda value: sb.IncompleteTopK(k=value, size=10, **STREAMS),
    "incomplete size": lambda value: sb.IncompleteTopK(k=1, size=value, **STREAMS),
    "incomplete every": lambda value: sb.IncompleteTopK(k=1, size=10, every=value, **STREAMS),
    "incomplete occurrences": lambda value: sb.IncompleteTopK(k=1, size=10, occurrences=value, **STREAMS),
    "incomplete bounds": lambda value: sb.IncompleteTopK(k=1, size=10, bounds=(0, value), **STREAMS),
    "incomplete lower bound": lambda value: sb.IncompleteTopK(k=1, size=10, bounds=(value, 1), **STREAMS),
    "incomplete weights": lambda value: sb.IncompleteTopK(k=1, size=10, weights={"a": value}, **STREAMS),
    "uncertain k": lambda value: sb.UncertainTopK(k=value, size=10),
    "uncertain size": lambda value: sb.UncertainTopK(k=1, size=value),
    "uncertain every": lambda value: sb.UncertainTopK(k=1, size=10, every=value),
    "uncertain threshold": lambda value: sb.UncertainTopK(k=1, size=10, semantics="pt-k", threshold=value),
    "uncertain epsilon": lambda value: sb.uncertain.Monitor(sb.UncertainTopK(k=1, size=10), epsilon=value).queries[0],
}
SPECIAL = [2**31 - 1, 2**31, 2**62, 2**63 - 1, 2**63, 2**64, -(2**63), 10**9, 10**400, -(10**400)]
numbers = st.one_of(
    st.integers(-3, 12),
    st.sampled_from(SPECIAL),
    st.sampled_from([math.nan, math.inf, -math.inf, 1e300, 0.5, 1.0, True, False, None, "3", ""]),
    st.sampled_from([np.int64(3), np.int8(2), np.uint64(2**63), np.float64(2.5), np.float32("nan"), np.bool_(True)]),
    st.sampled_from([np.array(3), np.array([3]), [], dt.timedelta(0), dt.timedelta(days=10**8)]),
)


def run(query):
    """A small stream, from beginning to end."""
    positions = [1, 2] if query.axis == "time" else None
    if isinstance(query, sb.TopK):
        sb.replay(query, positions, [1.0, 2.0])
    elif isinstance(query, sb.AggregateTopK):
        sb.aggregate.replay(query, positions, ["a", "b"], [1.0, 2.0])
    elif isinstance(query, sb.IncompleteTopK):
        low, high = query.bounds_of("a")
        sb.incomplete.replay(query, positions, ["x", "y"], ["a", "b"], [low, high])
    else:
        sb.uncertain.replay(query, positions, [1.0, 2.0], [0.5, 0.5])


def what_is_said(field, value):
    """The refusal, or None."""
    try:
        run(FIELDS[field](value))
    except sb.SkybandError as error:
        return str(error)
    return None


@pytest.mark.parametrize("field", FIELDS)
@given(value=numbers)
def test_a_number_is_taken_or_refused_in_our_words(field, value):
    said = what_is_said(field, value)
    assert said is None or (len(said.split()) > 6 and said.endswith((".", "?", ")")))


@pytest.mark.parametrize("method", ["exact", "sorted-lists", "approximate"])
def test_a_large_k_allocates_by_the_objects_that_there_are(method):
    monitor = sb.incomplete.Monitor(sb.IncompleteTopK(k=2**31 - 1, size=20_000, method=method, **STREAMS))
    tracemalloc.start()
    monitor.push(None, np.arange(20_000) % 12_000, np.repeat(["a", "b"], [12_000, 8_000]), np.linspace(0, 1, 20_000))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert monitor.answers().num_rows == 12_000
    assert peak < 2e8


def test_more_occurrences_than_can_be_counted_are_refused():
    with pytest.raises(sb.InvalidQueryError, match="occurrences=18446744073709551616 must be an integer between 1"):
        sb.IncompleteTopK(k=1, size=10, occurrences=2**64, **STREAMS)
