"""Alerts about scores are the crossings of a limit, found in whole answers by their definition.

A row crosses if its score meets the condition in a window, and in the window before it did not, or was not there. The
stream is cut into any micro-batches, and the shards are stored and resumed between some of them.
"""

from __future__ import annotations

import json
import math
import operator
from datetime import datetime
from random import Random

import pyarrow as pa
import pytest

import skyband as sb
from skyband.connectors.alert_rows import alerts_of
from skyband.local.pipeline import plan_for
from skyband.queries.answer_schema import OLD_SCORE
from skyband.sharding.projection import ProjectionRequest
from tests.sharding import test_reported_answers as feeds

SECOND = feeds.SECOND
COMPARED = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}
IDENTITY = {**feeds.IDENTITY, "topk": "id", "half_life": "id"}


def draw_queries(random, family):
    if family not in ("topk", "half_life"):
        return feeds.draw_queries(random, family)
    found = []
    for number in range(random.randint(1, 3)):
        slide = random.choice([2, 5])
        half_life = f"{random.choice([1, 3, 8])} seconds" if family == "half_life" or random.random() < 0.3 else None
        found.append(
            sb.TopK(
                name=f"q{number}",
                k=random.randint(1, 4),
                size=f"{random.choice([1, 2, 4]) * slide} seconds",
                slide=f"{slide} seconds",
                by="v",
                order=random.choice(["asc", "desc"]),
                partition_by=random.choice([(), ("g",)]),
                half_life=half_life,
                ties=random.choice(["row_number", "rank"]) if half_life is None else "row_number",
            )
        )
    return found


def draw_rows(random, family, count):
    rows = feeds.draw_rows(random, count)
    if family in ("topk", "half_life"):  # other families reject negative or infinite values, or sum to NaN
        special = [math.inf, -math.inf, math.nan, -3.0, -1.0, 8.0]
        rows = [(*row[:4], random.choice(special) if random.random() < 0.2 else row[4], row[5]) for row in rows]
    return rows


def plan_of(queries, output, shards):
    workload = sb.Workload(queries)
    shards = 1 if workload.family == "uncertain" else shards
    request = ProjectionRequest(workload, "ts", "id", output=output, shards=shards, old_scores=output != "answers")
    return plan_for(feeds.SCHEMA, request)


def conditions(random):
    """Limits that scores reach exactly, and others."""
    limits = random.sample([-1.5, 0, 0.3, 1, 1.7, 2, 3, 4, 6.5], 4)
    return [f"score {sign} {limit}" for sign, limit in zip(COMPARED, limits, strict=True)]


def crossings(queries, answers, identity, when):
    """By the definition: (query, group, end, condition, object, the score before)."""
    windows = {}
    for row in answers:
        board = windows.setdefault((row["query"], row.get("g")), {}).setdefault(feeds.micros(feeds.end_of(row)), {})
        place = 0  # an answer can have an object twice
        while (row[identity], place) in board:
            place += 1
        board[row[identity], place] = row["score"]
    steps, found = {query.name: query.window.slide for query in queries}, []
    for (name, group), boards in windows.items():
        previous = None
        for end in sorted(boards):
            # A window without rows is not in the answers: then no row was in the window before.
            before = boards[previous] if previous is not None and end - previous <= steps[name] else {}
            for one in when:
                _, sign, limit = one.split()
                for item, score in boards[end].items():
                    old = before.get(item)
                    was = old is not None and COMPARED[sign](old, float(limit))
                    if COMPARED[sign](score, float(limit)) and not was:
                        found.append((name, group, end, one, item[0], old))
            previous = end
    return found


def reported(alerts, identity, queries):
    grouped = {query.name for query in queries if getattr(query, "partition_by", None)}
    return [
        (
            alert["query"], alert["group"]["g"] if alert["query"] in grouped else None,
            feeds.micros(moment(alert)), alert["when"], alert["row"][identity],
            None if alert["row"]["old_score"] is None else float(alert["row"]["old_score"]),
        )
        for alert in alerts
    ]  # fmt: skip


def moment(alert):
    return datetime.fromisoformat(alert.get("window_end", alert.get("time")))


@pytest.mark.parametrize("family", ["topk", "half_life", "aggregate", "incomplete", "uncertain"])
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 30))])
def test_alerts_are_the_crossings_of_the_answers(seed, family):
    random = Random(f"crossings {seed} {family}")
    queries = draw_queries(random, family)
    rows, when = draw_rows(random, family, random.choice([4, 25, 60])), conditions(random)
    identity = IDENTITY[family]
    groups = {query.name: query.groups for query in queries}
    cuts, shards = [], random.choice([1, 2, 3])
    while rows:
        cut = random.randint(1, 9)
        cuts, rows = [*cuts, rows[:cut]], rows[cut:]
    delay = random.choice([0, 3]) * SECOND
    answers, _ = feeds.streamed(random, plan_of(queries, "answers", shards), cuts, delay, flush=None)
    keys = {}
    for output in ("changes", "both"):
        changes, _ = feeds.streamed(random, plan_of(queries, output, shards), cuts, delay, flush=None)
        alerts = list(alerts_of(changes, when, groups))
        found = reported(alerts, identity, queries)
        want = crossings(queries, only_own_groups(answers.to_pylist(), groups), identity, when)
        assert sorted(map(repr, found)) == sorted(map(repr, want))  # each once
        keys[output] = sorted(alert["key"] for alert in alerts)
        assert len(set(keys[output])) == len(found)
        assert all(OLD_SCORE.name not in json.dumps(alert) for alert in alerts)
    assert keys["changes"] == keys["both"]


def only_own_groups(rows, groups):
    return [{**row, "g": row.get("g") if groups[row["query"]] else None} for row in rows]


def test_a_score_that_decays_below_a_limit():
    """By the definition of the half-life: 8 at 1 s is 8 * 2 ** (-(end - 1) / 2) at the end of a window."""
    query = sb.TopK(name="q", k=2, size="20 seconds", slide="2 seconds", by="v", half_life="2 seconds")
    plan = plan_of([query], "changes", 1)
    rows = [(1 * SECOND, 0, "a", "a", 8.0, 1.0), (9 * SECOND, 1, "a", "a", 1.0, 1.0)]
    changes, _ = feeds.streamed(Random(1), plan, [rows[:1], rows[1:]], 0, flush=None)
    told = [
        (row["change"], row["id"], row["rank"], row["old_rank"], row["score"], row[OLD_SCORE.name])
        for row in changes.to_pylist()
        if feeds.micros(row["window_end"]) <= 6 * SECOND
    ]

    def score(end):
        return 8 * 2 ** (-(end - 1) / 2)

    assert told == [
        ("entered", 0, 1, None, pytest.approx(score(2)), None),
        ("updated", 0, 1, 1, pytest.approx(score(4)), pytest.approx(score(2))),
        ("updated", 0, 1, 1, pytest.approx(score(6)), pytest.approx(score(4))),
    ]
    found = list(alerts_of(changes, ["score < 3"], {"q": ()}))
    assert [(alert["row"]["id"], moment(alert).timestamp()) for alert in found] == [(0, 4.0), (1, 10.0)]


def test_a_key_whose_total_rises_over_the_limit_while_it_is_held():
    """It rises over the limit twice, so there are two alerts; it stays over it in other windows."""
    query = sb.AggregateTopK(name="q", k=2, size="4 seconds", slide="1 second", key="who", value="v")
    values = {0: 50.0, 1: 100.0, 2: 5.0, 6: 30.0, 7: 90.0}
    rows = [(at * SECOND, at, "a", "a", value, 1.0) for at, value in values.items()]
    changes, _ = feeds.streamed(Random(2), plan_of([query], "changes", 2), [[row] for row in rows], 0, flush=None)
    found = list(alerts_of(changes, ["score > 100"], {"q": ()}))
    assert [
        (moment(one).timestamp(), one["row"]["change"], one["row"]["score"], one["row"]["old_score"]) for one in found
    ] == [(2.0, "updated", 150.0, 50.0), (8.0, "updated", 120.0, 30.0)]


def test_a_column_of_the_row_with_the_name_of_the_old_score():
    rows = pa.table(
        {"query": ["q"], "window_end": [9], "change": ["entered"], "rank": [1], "old_rank": pa.nulls(1, pa.int32()),
         OLD_SCORE.name: pa.nulls(1, pa.float64()), "score": [3.0], "id": [7], "old_score": ["mine"]}
    )  # fmt: skip
    (alert,) = alerts_of(rows, ["score > 2"], {"q": ()})
    assert alert["row"] == {
        "change": "entered",
        "rank": 1,
        "old_rank": None,
        "score": 3.0,
        "id": 7,
        "old_score": "mine",
    }
