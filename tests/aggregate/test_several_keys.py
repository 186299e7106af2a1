"""Keys of several columns: ranked by their combinations, returned as their own columns, whatever the engine."""

from __future__ import annotations

import math
from random import Random

import pyarrow as pa
import pytest

import skyband as sb
from skyband.aggregate import Monitor, replay
from skyband.aggregate.brute_force import by_definition
from skyband.workload_file import read_workload
from tests.aggregate import oracle

TEAMS = ["a", "ab", "", "é", None]
PLAYERS = [-1, 0, 7, None]


def drawn(seed, rows=80):
    random = Random(seed)
    position, found = 0, []
    for _ in range(rows):
        position += random.choice([0, 0, 1, 3])
        found.append((position, random.choice(TEAMS), random.choice(PLAYERS), random.choice([1.0, 2.0, 0.1, -1.0])))
    return found


def expected(query, rows):
    """The oracle's answers: it compares tuples as Python does."""
    objects = [oracle.Row(at, None if None in (team, player) else (team, player), v) for at, team, player, v in rows]
    found = oracle.answers([query], objects)
    return [(*row[2:5], *row[5], row[6]) for row in found]


def listed(table):
    names = ["window_start", "window_end", "rank", "team", "player", "score"]
    columns = [table[name].cast(pa.int64()) if name.startswith("window") else table[name] for name in names]
    return list(zip(*(column.to_pylist() for column in columns), strict=True))


def frame(rows):
    at, team, player, value = zip(*rows, strict=True)
    return pa.table(
        {
            "ts": pa.array(at, pa.int64()).cast(pa.timestamp("us", "UTC")),
            "team": pa.array(team, pa.string()),
            "player": pa.array(player, pa.int32()),
            "v": pa.array(value, pa.float64()),
        }
    )


QUERY = {"k": 3, "size": "12 microseconds", "slide": "5 microseconds"}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("order", ["desc", "asc"])
def test_arrays_frames_and_the_definition_agree(seed, order):
    rows = drawn(seed)
    plain = sb.AggregateTopK(**QUERY, order=order)
    asked = sb.AggregateTopK(**QUERY, key=["team", "player"], value="v", order=order)
    whole = frame(rows)
    wanted = expected(plain, rows)
    keys = {name: whole[name].combine_chunks() for name in ("team", "player")}
    at = whole["ts"].cast(pa.int64()).to_numpy()
    assert listed(replay(plain, at, keys, whole["v"])) == wanted
    assert listed(replay(asked, whole, time="ts")) == wanted
    found = by_definition(whole, sb.Workload([asked]), time="ts")
    assert found.column_names[-3:] == ["team", "player", "score"]
    assert sorted(map(str, found["score"].to_pylist())) == sorted(str(row[-1]) for row in wanted)
    monitor = Monitor(plain)
    parts = []
    for low in range(0, len(rows), 7):
        mine = {name: column.slice(low, 7) for name, column in keys.items()}
        monitor.push(at[low : low + 7], mine, whole["v"].slice(low, 7))
        parts += listed(monitor.answers()) if low % 2 else []
        monitor = Monitor.resume(monitor.snapshot())
    monitor.finish()
    assert parts + listed(monitor.answers()) == wanted


def test_rows_come_back_whole_and_groups_stay_apart():
    rows = pa.table(
        {
            "ts": pa.array([1, 2, 3, 4], pa.int64()).cast(pa.timestamp("us", "UTC")),
            "league": ["x", "x", "y", "y"],
            "team": ["a", "a", "a", "b"],
            "player": [1, 1, 1, 2],
            "game": ["first", "second", "third", "fourth"],
            "v": [5.0, 4.0, 3.0, 2.0],
        }
    )
    query = sb.AggregateTopK(
        k=2, size="10 microseconds", key=["team", "player"], value="v", aggregate="max", row=True, partition_by="league"
    )
    found = replay(query, rows, time="ts").to_pylist()
    assert [(row["league"], row["rank"], row["team"], row["player"], row["game"]) for row in found] == [
        ("x", 1, "a", 1, "first"),
        ("y", 1, "a", 1, "third"),
        ("y", 2, "b", 2, "fourth"),
    ]


@pytest.mark.parametrize(
    ("sql", "written"),
    [
        ("TOPK sum(v), 3 BY KEY team, player OVER 1 HOUR", None),
        ("TOPK sum(v), 3 BY team, player OVER 1 HOUR", "TOPK sum(v), 3 BY KEY team, player OVER 1 HOUR"),
        (
            "SELECT team, player, sum(v) FROM s [RANGE 1 HOUR] GROUP BY team, player ORDER BY sum(v) DESC LIMIT 3",
            "TOPK sum(v), 3 BY KEY team, player OVER 1 HOUR",
        ),
    ],
)
def test_sql(sql, written):
    query = sb.sql(sql)
    query = query[0] if isinstance(query, list) else query
    assert query.key == ("team", "player")
    assert query.to_sql() == (written or sql)
    assert sb.sql(query.to_sql()) == sb.sql(sql) or query.to_sql() == written


def test_a_workload_file_has_a_list_of_keys(tmp_path):
    (tmp_path / "games.csv").write_text("ts,team,player,v\n2026-01-01 00:00:00,a,1,2.0\n")
    file = tmp_path / "skyband.yaml"
    file.write_text(
        f"streams: {{games: {{source: files, path: {tmp_path}/games.csv, format: csv, time: ts}}}}\n"
        "queries: [{type: aggregate, key: [team, player], value: v, k: 3, size: 1 hour}]\n"
        f"sinks: [{{type: parquet, path: {tmp_path}/out}}]\n"
    )
    assert read_workload(file).workloads["games"].queries[0].key == ("team", "player")


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"team": ["a"]}, "at least two"),
        ({"team": ["a"], "rank": [1]}, "column of every answer"),
        ({"team": ["a"], "player": [1, 2]}, "1"),
    ],
)
def test_wrong_arrays_are_rejected(keys, said):
    monitor = Monitor(sb.AggregateTopK(k=1, size=1))
    with pytest.raises(sb.SkybandError, match=said):
        monitor.push(None, keys, [1.0])
    assert monitor.metrics()["rows"] == 0


def test_other_columns_later_are_rejected():
    monitor = Monitor(sb.AggregateTopK(k=1, size=1))
    monitor.push(None, {"team": ["a"], "player": [1]}, [math.pi])
    for keys in (["a"], {"team": ["a"], "player": ["x"]}, {"player": [1], "team": ["a"]}):
        with pytest.raises(sb.SkybandError, match="earlier pushes had"):
            monitor.push(None, keys, [1.0])


@pytest.mark.parametrize("key", [[], ["a", "a"], ["a", ""], [1, 2]])
def test_wrong_lists_are_rejected(key):
    with pytest.raises(sb.InvalidQueryError, match="key"):
        sb.AggregateTopK(k=1, size=1, key=key, aggregate="count")


def test_names_of_answers_are_rejected_as_keys():
    rows = pa.table({"ts": pa.array([1], pa.timestamp("us")), "rank": [1], "b": [2]})
    with pytest.raises(sb.InvalidQueryError, match="another column of the answers"):
        replay(sb.AggregateTopK(k=1, size="1 second", key=["rank", "b"], aggregate="count"), rows, time="ts")
