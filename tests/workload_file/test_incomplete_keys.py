"""Queries over incomplete streams in workload files: formulas, bounds by stream, streams that report once."""

from __future__ import annotations

import pytest

import skyband as sb
from skyband.errors import WorkloadFileError

FILE = """
streams:
  flows: {path: flows.csv, time: at}
queries:
  - name: heavy
    type: incomplete
    k: 5
    size: 5 minutes
    every: 10 seconds
    object: flow
    stream_by: router
    value: bytes
    streams: [r1, r2]
    formula: 0.7 * r1 + sqrt(r2)
    bounds: {r1: [0, 1], r2: [0, 1000]}
    occurrences: once
    method: expected-scores
"""


def test_they_become_fields_of_the_query(read):
    assert read(FILE).workloads["flows"]["heavy"] == sb.IncompleteTopK(
        name="heavy",
        k=5,
        size="5 minutes",
        every="10 seconds",
        object="flow",
        stream="router",
        value="bytes",
        streams=["r1", "r2"],
        aggregate="0.7 * r1 + sqrt(r2)",
        bounds={"r1": (0, 1), "r2": (0, 1000)},
        occurrences="once",
        method="expected-scores",
    )


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("0.7 * r1 + sqrt(r2)", "r1 - r2", r"formula.*score falls if the value of 'r2' rises"),
        (
            "formula: 0.7 * r1 + sqrt(r2)",
            "formula: r1 + r2\n    aggregate: sum",
            "formula.*cannot be combined with aggregate",
        ),
        ("r2: [0, 1000]", "r2: 7", r"bounds.*must be two numbers"),
        (", r2: [0, 1000]", "", r"bounds.*no bounds for the stream 'r2'"),
        ("occurrences: once", "occurrences: never", r"occurrences.*must be a whole number of at least 1, or once"),
    ],
)
def test_what_does_not_fit_is_refused_at_its_key(read, before, after, said):
    with pytest.raises(WorkloadFileError, match=said):
        read(FILE.replace(before, after))
