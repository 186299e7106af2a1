"""In process nothing computes an expression: a query that has one is refused, not answered about something else."""

from __future__ import annotations

import pytest

import skyband as sb

TOPK = {"k": 1, "size": "10 seconds"}
DOORS = {
    "topk": sb.Monitor,
    "topk replay": lambda query: sb.replay(query, [1], [1.0]),
    "aggregate": sb.aggregate.Monitor,
    "aggregate replay": lambda query: sb.aggregate.replay(query, [1], ["a"], [1.0]),
    "incomplete": sb.incomplete.Monitor,
    "incomplete replay": lambda query: sb.incomplete.replay(query, [1], ["a"], ["s"], [0.5]),
    "uncertain": sb.uncertain.Monitor,
    "uncertain replay": lambda query: sb.uncertain.replay(query, [1], [1.0], [0.5]),
}
CLASSES = {
    "topk": sb.TopK,
    "aggregate": sb.AggregateTopK,
    "incomplete": lambda **fields: sb.IncompleteTopK(streams=["s"], **fields),
    "uncertain": sb.UncertainTopK,
}
ASKED = [
    ("topk", {"by": "price * size"}),
    ("topk", {"by": "-price"}),
    ("topk", {"where": "price > 1"}),
    ("topk", {"partition_by": ["upper(symbol)"]}),
    ("aggregate", {"key": "lower(url)", "value": "price"}),
    ("aggregate", {"value": "price * 2", "key": "url"}),
    ("aggregate", {"where": "price > 1"}),
    ("incomplete", {"object": "lower(name)"}),
    ("incomplete", {"value": "v / 100"}),
    ("incomplete", {"where": "v > 1"}),
    ("uncertain", {"by": "speed + 1", "probability": "p"}),
    ("uncertain", {"probability": "p / 100", "by": "speed"}),
    ("uncertain", {"rule": "a || b", "by": "speed", "probability": "p"}),
    ("uncertain", {"where": "p > 0.5"}),
]


@pytest.mark.parametrize("replayed", [False, True])
@pytest.mark.parametrize(("family", "fields"), ASKED, ids=str)
def test_an_expression_is_refused_with_value_rule_and_consequence(family, fields, replayed):
    name, value = next(iter(fields.items()))
    query = CLASSES[family](**TOPK, **fields)
    with pytest.raises(
        sb.InvalidQueryError,
        match=r"rows given as arrays cannot be filtered|expressions are not evaluated when rows are given as arrays",
    ) as refused:
        DOORS[f"{family} replay" if replayed else family](query)
    text = value if isinstance(value, str) else value[0]
    assert f"{name}={text!r}" in str(refused.value)
    assert f"omit {name}=" in str(refused.value)


@pytest.mark.parametrize("by", ["price", "trade.price", "`the price`", "größe"])
def test_a_column_name_says_what_the_array_holds(by):
    query = sb.TopK(by=by, **TOPK)
    assert sb.replay(query, [1], [1.0]).num_rows == 1
    monitor = sb.Monitor(query)
    monitor.add(sb.TopK(name="more", by=by, **TOPK))
    with pytest.raises(sb.InvalidQueryError, match="by='price \\+ 1'"):
        monitor.add(sb.TopK(name="other", by="price + 1", **TOPK))


def test_who_has_computed_it_says_so():
    query = sb.TopK(by="price * size", **TOPK)
    monitor = sb.Monitor(query, computed=True)
    monitor.push([1], [2.0])
    again = sb.Monitor.resume(monitor.snapshot(), [query])
    again.finish()
    assert again.answers()["score"].to_pylist() == [2.0]
