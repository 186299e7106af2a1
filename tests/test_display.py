"""What notebooks show: workloads, explanations and stream handles, with everything escaped."""

from __future__ import annotations

import pytest

import skyband as sb
from skyband.display import MOST_ROWS, Explanation, html_table
from skyband.spark.metrics import StreamProgress
from skyband.spark.stream_handle import RunHandle

WORK = sb.Workload(
    [
        sb.TopK(name="<b>", k=2, size="1 minute", by="price < 3"),
        sb.TopK(name="each", k=1, size="1 minute", by="x", partition_by=["symbol"]),
    ]
)


def test_a_workload_shows_its_queries_without_empty_columns():
    shown = WORK._repr_html_()
    assert "<b>2 queries of family topk, time windows</b>" in shown
    assert "<td>&lt;b&gt;</td><td>2</td><td>1 minute, every 1 minute</td><td>price &lt; 3</td><td></td>" in shown
    assert "<th>for each</th>" in shown
    assert "<th>where</th>" not in shown


@pytest.mark.parametrize(
    "query",
    [
        sb.AggregateTopK(k=2, size="1 hour", key="client", value="bytes"),
        sb.IncompleteTopK(k=2, size="1 hour", every="1 minute", object="flow", value="bytes", streams=["a", "b"]),
        sb.UncertainTopK(k=2, size="1 hour", every="1 minute", by="speed", probability="p"),
    ],
    ids=lambda query: query.family,
)
def test_workloads_of_all_families_show_themselves(query):
    assert f"1 query of family {query.family}" in sb.Workload([query])._repr_html_()


def test_a_long_workload_is_cut():
    many = sb.Workload([sb.TopK(name=f"q{number}", k=1, size=10) for number in range(MOST_ROWS + 3)])
    shown = many._repr_html_()
    assert shown.count("<tr>") == 1 + MOST_ROWS
    assert shown.endswith("<p>3 more rows</p>")


def test_an_explanation_is_text_that_shows_its_lines():
    explained = WORK.explain()
    assert isinstance(explained, Explanation)
    assert repr(explained) == str(explained)
    assert explained._repr_html_().startswith("<pre>2 queries over event time")
    assert "price < 3" in explained
    assert "price < 3" not in explained._repr_html_()


def test_cells_are_escaped_and_numbers_readable():
    assert "<td>&lt;i&gt;</td><td></td><td>1.23457e+08</td>" in html_table("abc", [("<i>", None, 123456789.0)], 1)


def test_a_handle_shows_status_and_counts():
    handle = RunHandle(StreamProgress())
    assert repr(handle) == "<RunHandle running: batches=0, rows=0, late=0, windows=0, answers=0>"
    assert "<b>Stream: running</b>" in handle._repr_html_()
    handle._ended.set()
    assert "<b>Stream: ended</b>" in handle._repr_html_()
    handle._error = sb.PipelineError("the disk <sda> is full")
    assert "stopped by an error: the disk &lt;sda&gt; is full</b>" in handle._repr_html_()
    assert "<td>rows</td><td>0</td>" in handle._repr_html_()
