"""Answers by their definition, without Spark: equal to the oracle, and a comparison finds every difference."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import skyband as sb
from skyband.topk.brute_force import by_definition, compare_tables
from tests.sharding import cases
from tests.spark.frames import table


@pytest.mark.parametrize("axis", ["time", "count"])
@pytest.mark.parametrize("seed", range(16))
def test_the_definitions(axis, seed):
    random = cases.rng("brute force", axis, seed)
    posed = [cases.draw_posed(random, f"q{i}", axis=axis, kinds=cases.KINDS[i : i + 1], ties=True) for i in range(5)]
    rows = cases.draw_rows(random, random.choice([0, 1, 40, 120]))
    random.shuffle(rows)
    workload = sb.Workload(one.query(axis) for one in posed)
    found = by_definition(table(rows), workload, time="ts", id_="id")
    want = {}
    for one in posed:
        want |= cases.wanted(one, sorted(rows, key=lambda row: (row[0], row[2])), axis)
    got = {}
    for row in found.to_pylist():
        one = next(one for one in posed if one.name == row["query"])
        group = row["g"] if "partition_by" in one.kind else "-"
        end = cases.micros(row["window_end"]) if axis == "time" else row["window_end"]
        values = (end - one.asked.size, end, row["rank"], row["__id"], row["score"])
        got.setdefault((row["query"], group), []).append(values)
    in_order = {key: sorted(found, key=lambda row: (row[1], row[2], -row[3])) for key, found in got.items()}
    assert in_order == {
        key: sorted(found, key=lambda row: (row[1], row[2], -row[3])) for key, found in want.items() if found
    }


def answers():
    rows = table(cases.draw_rows(cases.rng("differences"), 60))
    query = sb.TopK(name="q", k=3, size="20 milliseconds", slide="5 milliseconds", by="s")
    return by_definition(rows, sb.Workload(query), time="ts", id_="id")


def test_equal_answers_have_no_difference():
    found = answers()
    assert compare_tables(found, found.take(pa.array(range(found.num_rows - 1, -1, -1))))[1:] == (0, 0, [])


def test_a_missing_an_additional_and_a_changed_row_are_found():
    found = answers()
    missing = compare_tables(found, found.slice(1))
    assert missing[1:3] == (1, 0)
    assert missing.examples[0]["what"] == "missing"
    assert compare_tables(found, pa.concat_tables([found, found.slice(0, 1)]))[1:3] == (0, 1)
    place = found.schema.get_field_index("score")
    changed = found.set_column(place, "score", pc.add(found["score"], 1.0))
    finite = pc.sum(pc.is_finite(found["score"])).as_py()
    assert compare_tables(found, changed)[1:3] == (finite, finite)
    assert finite > 40


def test_a_gap_in_time_is_skipped():
    rows = [(0, 1.0, 1, "a"), (3 * 10**15, 2.0, 2, "a")]  # a century with windows of a millisecond
    query = sb.TopK(name="q", k=3, size="2 milliseconds", slide="1 millisecond", by="s")
    found = by_definition(table(rows), sb.Workload(query), time="ts", id_="id")
    assert found["__id"].to_pylist() == [1, 1, 2, 2]
