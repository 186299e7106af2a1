"""The definition that `verify` compares with is the one of the oracle."""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pytest

import skyband as sb
from skyband.aggregate import brute_force
from skyband.aggregate.brute_force import by_definition, defined_score
from tests.aggregate import cases, oracle


def is_defined(query):
    try:
        defined_score(query)
    except sb.UnsupportedError:
        return False
    return True


@pytest.mark.parametrize("seed", range(40))
def test_it_is_the_oracle(seed):
    random = Random(seed)
    case = cases.draw(random, axis="time", grouped=False, most=60)
    rows = sorted((row for row in case.rows if row.position is not None), key=lambda row: row.position)
    value = "v" if case.valued else None
    given = [{"key": "k", "value": value, "partition_by": random.choice([(), ("g",)])} for _ in case.queries]
    queries = [sb.AggregateTopK(**{**query.to_dict(), **more}) for query, more in zip(case.queries, given, strict=True)]
    queries = [query for query in queries if is_defined(query)]
    if not queries:
        pytest.skip("brute force knows none of these queries")
    table = pa.table(
        {
            "ts": pa.array([row.position for row in rows], pa.int64()).cast(pa.timestamp("us", "UTC")),
            "k": pa.array([row.key for row in rows], case.key_kind),
            "v": pa.array([row.value for row in rows], pa.float64()),
            "g": pa.array([random.choice(["a", "b", None]) for _ in rows], pa.string()),
            "n": pa.array([number if row.id is None else row.id for number, row in enumerate(rows)], pa.int64()),
        }
    )
    grouped = [row._replace(group=group) for row, group in zip(rows, table["g"].to_pylist(), strict=True)]
    found = by_definition(table, sb.Workload(queries), time="ts", id_="n")
    mine = [
        (row["query"], row.get("g"), row["window_end"].value, row["rank"], row["key"])
        + ((row["__id"],) if "__id" in row else ())
        + (oracle.comparable(row["score"]),)
        + ((row["share"],) if "share" in row else ())
        for row in _rows(found)
    ]
    want = []
    for query in queries:
        answers = oracle.answers([query], grouped, valued=case.valued)
        if "__id" in found.column_names and not query.row:
            answers = [(*answer[:6], None, *answer[6:]) for answer in answers]
        more = (None,) if "share" in found.column_names and not query.share else ()
        want += [(name, group, *rest, *more) for name, group, _, *rest in answers]
    assert sorted(mine, key=_place) == sorted(want, key=_place)


def _place(answer):
    """A place in any order; keys with one rank can be -0.0 and 0.0, which are equal."""
    return repr([part + 0.0 if isinstance(part, float) else part for part in answer])


def _rows(table):
    columns = {name: table[name] if name == "window_end" else table[name].to_pylist() for name in table.column_names}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def test_an_aggregate_without_a_definition_is_refused(monkeypatch):
    monkeypatch.delitem(brute_force._SCORES, "avg")
    with pytest.raises(sb.UnsupportedError, match="aggregate='avg', which verify cannot compute by brute force"):
        defined_score(sb.AggregateTopK(k=1, size=10, aggregate="avg"))
