"""What is wrong with a file is told at its line, by its key, in our words, and all of it at once."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import skyband as sb
from tests.workload_file.files import FULL, SHORT
from tests.workload_file.wrong import SEVERAL, WRONG

FOREIGN = (
    "Input should be",
    "Extra inputs",
    "Field required",
    "pydantic",
    "valid dictionary",
    "Value error",
    "NoneType",
)


@pytest.mark.parametrize("name", WRONG)
def test_it_is_told_where_it_is(problems, name):
    old, new, *where, key, part = WRONG[name]
    assert old in SHORT
    found = problems(SHORT.replace(old, new, 1))
    assert (*where, key) in [problem[:3] for problem in found]
    message = next(problem[3] for problem in found if problem[2] == key)
    assert part in message
    assert not any(word in problem[3] for problem in found for word in FOREIGN)


@pytest.mark.parametrize("name", sorted(set(WRONG) - SEVERAL))
def test_one_mistake_is_one_problem(problems, name):
    old, new, *_ = WRONG[name]
    assert len(problems(SHORT.replace(old, new, 1))) == 1


def test_all_problems_come_at_once_in_the_order_of_the_file(problems):
    spoilt = SHORT.replace("ts", "ts\n    port: 1").replace("k: 10", "k: 0").replace("1 hour", "1 huor")
    spoilt += "sinks: [{type: no}]\nengine: {shards: 0}\n"
    found = problems(spoilt)
    assert [problem[2] for problem in found] == [
        "streams.trades.port",
        "queries[0].k",
        "queries[0].size",
        "sinks[0].type",
        "engine.shards",
    ]
    assert [problem[0] for problem in found] == sorted(problem[0] for problem in found)


def test_the_message_is_a_line_for_each_problem(read, tmp_path):
    with pytest.raises(sb.WorkloadFileError) as caught:
        read(SHORT.replace("k: 10", "k: 0").replace("1 hour", "1 hour\n    slide: 2 hours"))
    lines = str(caught.value).splitlines()
    assert lines == [f"{tmp_path}/skyband.yaml:7:5 queries[0].k: must be at least 1, got 0."]
    assert isinstance(caught.value, sb.SkybandError)
    assert isinstance(caught.value, ValueError)
    again = pickle.loads(pickle.dumps(caught.value))
    assert again.problems == caught.value.problems
    assert str(again) == str(caught.value)


def test_several_streams_want_to_be_named(problems):
    text = SHORT.replace("streams:", "streams:\n  b: {source: rate}")
    assert problems(text) == [(7, 5, "queries[0].stream", "is missing; set one of b, trades.")]


def test_sql_and_stream_say_one_thing(problems):
    text = "streams:\n  a: {{source: rate}}\n  b: {{source: rate}}\nqueries:\n  - sql: TOPK value, 1{} OVER 5 ROWS\n{}"
    assert "no FROM" in problems(text.format("", ""))[0][3]
    assert (
        "FROM a contradicts stream: b; remove one of them." in problems(text.format(" FROM a", "    stream: b\n"))[0][3]
    )


def test_a_key_that_is_out_of_place_is_told_as_such_whatever_its_value(problems):
    (found,) = problems(SHORT.replace("k: 10", "threshold: 7\n    k: 10"))
    assert found[2:] == ("queries[0].threshold", "is a key of queries of type uncertain; this query has type topk.")
    text = SHORT.replace("k: 10\n    size: 1 hour\n    by: price", "sql: TOPK price, 1 OVER 1 HOUR\n    k: 0")
    (found,) = problems(text)
    assert found[2] == "queries[0].k"
    assert "cannot be combined with sql" in found[3]


def test_queries_without_names_clash_too(problems):
    text = SHORT.replace("  - name: big\n    k", "  - k") + "  - {k: 1, size: 1 day, by: x}\n"
    assert problems(text)[0][:3] == (9, 5, "queries[1]")


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2)
)


@given(data=st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=300)
def test_any_value_anywhere_is_read_or_refused_in_our_words(tmp_path, data):
    import json

    from skyband.workload_file.tree import read_tree
    from tests.workload_file.json_schema import errors

    tree = read_tree(FULL, lambda text, loc: text)
    loc = data.draw(st.sampled_from(sorted((loc for loc in tree.places if loc), key=str)))
    spot = tree.value
    for part in loc[:-1]:
        spot = spot[part]
    spot[loc[-1]] = data.draw(VALUES)
    file = tmp_path / "w.yaml"
    file.write_text(
        json.dumps(tree.value).replace("NaN", ".nan").replace("-Infinity", "-.inf").replace("Infinity", ".inf")
    )
    found = []
    try:
        sb.read_workload(file, {})
    except sb.WorkloadFileError as error:
        found = error.problems
    assert not any(word in problem.message for problem in found for word in FOREIGN)
    assert all(problem.line >= 1 for problem in found)
    assert found or errors(read_tree(file.read_text(), lambda text, loc: text).value) == []


def test_the_time_in_sql_is_that_of_the_stream(problems, read):
    flink = (
        "SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY price DESC) AS "
        "rownum FROM TABLE(TUMBLE(TABLE trades, DESCRIPTOR({}), INTERVAL '10' MINUTES))) WHERE rownum <= 3"
    )
    text = SHORT.replace("k: 10\n    size: 1 hour\n    by: price", 'sql: "{}"')
    assert read(text.format(flink.format("ts"))).workloads["trades"]["big"].k == 3
    assert "'ts'" in problems(text.format(flink.format("tz")))[0][3]
