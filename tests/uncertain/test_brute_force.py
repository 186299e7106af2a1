"""The definitions that `verify` judges by are those of the possible worlds, and wrong answers are found."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import pyarrow as pa
import pytest

import skyband as sb
from skyband.uncertain.brute_force import by_moments
from skyband.uncertain.definitions import UncertainTuple, criteria, definition, is_right
from tests.uncertain import oracle
from tests.uncertain.test_probabilities import random_input

WEIGHTS = [1.0, -0.5, 0.25]
MEANINGS = {
    "pk-topk": ({}, oracle.pk_topk),
    "pt-k": ({"threshold": 0.2}, lambda found, k: oracle.pt_k(found, k, Fraction(0.2))),
    "u-kranks": ({}, oracle.u_kranks),
    "expected-rank": ({}, oracle.expected_rank),
    "prf": (
        {"weights": WEIGHTS},
        lambda found, k: oracle.prf(found, k, lambda rank: Fraction(WEIGHTS[rank - 1]) if rank <= 3 else Fraction(0)),
    ),
    "prf ": ({"alpha": 0.5}, lambda found, k: oracle.prf(found, k, lambda rank: Fraction(1, 2) ** rank)),
}


def query(semantics, k, **more):
    return sb.UncertainTopK(k=k, size=100, semantics=semantics.strip(), by="s", probability="p", **more)


def inside(scores, chances, labels):
    labels = labels if labels is not None else [-1] * len(scores)
    rows = enumerate(zip(scores, chances, labels, strict=True))
    return [UncertainTuple(n, n, s, float(p), None if r == -1 else r, n % 3) for n, (s, p, r) in rows]


@pytest.mark.parametrize("semantics", MEANINGS)
@pytest.mark.parametrize("seed", range(12))
def test_definitions_are_those_of_possible_worlds(seed, semantics):
    scores, chances, labels = random_input(random.Random(seed))
    more, truth = MEANINGS[semantics]
    tuples = inside(scores, chances, labels)
    for k in (1, 3, 7):
        asked = query(semantics, k, **more)
        listed = criteria(tuples, asked)
        found, wanted = definition(tuples, asked, listed), truth(oracle.tuples(scores, chances, labels), k)
        chosen = [i for i, *_ in found]
        assert is_right(tuples, asked, listed, chosen, [None] * len(chosen))
        assert is_right(tuples, asked, listed, [i for i, *_ in wanted], [None] * len(wanted)), "of equal ones any"
        assert [p for _, p, *_ in found] == pytest.approx([float(p) for _, p, *_ in wanted], abs=1e-12)
        ranks = [rank for _, _, rank, _, _ in found if rank is not None]
        assert ranks == pytest.approx([float(row[2]) for row in wanted] if ranks else [], abs=1e-12)


@pytest.mark.parametrize("seed", range(20))
def test_the_most_probable_list(seed):
    scores, chances, labels = random_input(random.Random(seed))
    tuples = inside(scores, chances, labels)
    for k in (1, 2, 4):
        asked = query("u-topk", k)
        listed = criteria(tuples, asked)
        lists = oracle.u_topk_lists(oracle.tuples(scores, chances, labels), k)
        best = max(lists.values())
        assert listed.list[1] == pytest.approx(float(best), rel=1e-9)
        assert lists[tuple(listed.list[0])] == pytest.approx(float(best), rel=1e-9)
        for mine, chance in lists.items():
            assert is_right(tuples, asked, listed, list(mine), [None] * len(mine)) == math.isclose(
                chance, best, rel_tol=1e-9
            )


MORE = [
    {},
    {"semantics": "pt-k", "threshold": 0.307},
    {"semantics": "u-kranks"},
    {"semantics": "u-topk"},
    {"semantics": "expected-rank"},
    {"semantics": "prf", "weights": [1.0, 0.5]},
    {"semantics": "prf", "alpha": 0.9},
    {"stream": "ship"},
]


def case(seed, axis="time"):
    draw = random.Random(f"verify {seed}")
    rows, at = [], 0
    for number in range(draw.randint(1, 60)):
        at += draw.choice([0, 1, 1, 2, 5, 40 if draw.random() < 0.05 else 1])
        score = draw.choice([1.0, 2.0, 2.0, 3.0, 7.0, float("nan"), None, -1.0, draw.random()])
        rule = draw.choice([None, None, number // 4])
        chance = draw.choice([0.3, 1.0, 0.9] if rule is None else [0.05, 0.2, 0.25])
        rows.append((at, score, chance, rule, 1000 - number, draw.choice("xyz")))
    draw.shuffle(rows)
    columns = list(zip(*rows, strict=True))
    table = pa.table(
        {
            "ts": pa.array(columns[0], pa.timestamp("us")),
            "s": pa.array(columns[1], pa.float64()),
            "p": pa.array(columns[2], pa.float64()),
            "rule": pa.array(columns[3], pa.int64()),
            "id": pa.array(columns[4], pa.int64()),
            "ship": pa.array(columns[5], pa.string()),
        }
    )
    size, unit = draw.randint(6, 20), " microseconds" if axis == "time" else None
    queries = []
    for number, more in enumerate(draw.sample(MORE, 4)):
        every = draw.choice([2, 3, 5])
        spans = (f"{size}{unit}", f"{every}{unit}") if unit else (size, every)
        queries.append(
            sb.UncertainTopK(
                name=f"q{number}", k=draw.choice([1, 2, 4]), size=spans[0], every=spans[1], by="s", probability="p",
                rule="rule", where=None if draw.random() < 0.7 else "s > 1.5",
                order=draw.choice(["desc", "asc"]), **more,
            )
        )  # fmt: skip
    return draw, table, sb.Workload(queries)


def found_and_expected(table, workload, answers=None, id_="id"):
    _, kinds = by_moments(table, workload, time="ts", id_=id_, found=None)
    if answers is None:
        answers = sb.replay(workload, table, time="ts", id=id_).to_arrow()
    found = answers.select(kinds.names).cast(kinds)
    return found, by_moments(table, workload, time="ts", id_=id_, found=found)[0]


def sorted_rows(table):
    return sorted(map(repr, table.to_pylist()))


@pytest.mark.parametrize("axis", ["time", "count"])
@pytest.mark.parametrize("seed", range(25))
def test_answers_of_a_plan_agree(seed, axis):
    _, table, workload = case(seed, axis)
    found, expected = found_and_expected(table, workload, id_=["id", None][seed % 2])
    assert sorted_rows(found) == sorted_rows(expected)


@pytest.mark.parametrize("seed", range(25))
def test_a_wrong_answer_is_found(seed):
    draw, table, workload = case(seed)
    found, _ = found_and_expected(table, workload)
    rows = found.to_pylist()
    if not rows:
        pytest.skip("no answer")
    place = draw.randrange(len(rows))
    same = [row for row in rows if (row["query"], row["time"]) == (rows[place]["query"], rows[place]["time"])]
    what = draw.choice(["probability", "id", "score", *(["dropped"] if len(same) > 1 else [])])
    if what == "probability":
        rows[place]["probability"] *= 1 + 1e-6
    elif what == "dropped":
        rows.remove(same[-1])
    else:
        rows[place][what] += 5000
    changed = pa.Table.from_pylist(rows, found.schema)
    _, expected = found_and_expected(table, workload, changed)
    assert sorted_rows(changed) != sorted_rows(expected), what
    if what != "dropped":
        assert len(expected) == len(changed)


@pytest.mark.parametrize("lost", [0, 3, 6])
def test_an_answer_that_is_missing_is_found(lost):
    table = pa.table({"ts": pa.array(range(40), pa.timestamp("us")), "s": [1.0] * 40, "p": [0.5] * 40})
    asked = sb.UncertainTopK(k=1, size="12 microseconds", every="5 microseconds", by="s", probability="p")
    found, expected = found_and_expected(table, sb.Workload(asked), id_=None)
    assert sorted_rows(found) == sorted_rows(expected)
    times = sorted(set(found["time"].cast(pa.int64()).to_pylist()))
    assert times[:3] == [5, 10, 15]
    kept = pa.array([at != times[lost] for at in found["time"].cast(pa.int64()).to_pylist()])
    found, expected = found_and_expected(table, sb.Workload(asked), found.filter(kept), id_=None)
    assert set(expected["time"].cast(pa.int64()).to_pylist()) == set(times)
    assert len(expected) == len(found) + 1


@pytest.mark.parametrize("seed", range(10))
def test_the_lowest_scores_are_the_highest_of_negated_ones(seed):
    _, table, workload = case(f"order {seed}")
    table = table.set_column(1, "s", pa.compute.negate(table["s"]))
    lowest = [sb.UncertainTopK(**{**query.to_dict(), "order": "asc", "where": None}) for query in workload]
    highest = [sb.UncertainTopK(**{**query.to_dict(), "order": "desc", "by": "-s"}) for query in lowest]
    found, wanted = (sb.replay(queries, table, time="ts", id="id").to_arrow() for queries in (lowest, highest))
    scores = pa.compute.negate(wanted["score"])
    assert found.equals(wanted.set_column(wanted.column_names.index("score"), "score", scores))
    monitor = sb.uncertain.Monitor(lowest, time="ts", id="id")
    table = table.filter(table["ts"].is_valid()).sort_by([("ts", "ascending"), ("id", "ascending")])
    for low in range(0, table.num_rows, 17):
        monitor.push(table.slice(low, 17))
        monitor = sb.uncertain.Monitor.resume(monitor.snapshot())
    monitor.finish()
    assert monitor.answers().to_arrow().equals(found)


def test_arrays_in_ascending_order():
    speeds, chances = [80.0, 65.0, 45.0, 30.0, -0.0, float("nan")], [0.3, 0.4, 0.5, 1.0, 0.8, 0.2]
    query = {"k": 2, "size": 4, "every": 2}
    lowest = sb.uncertain.replay(sb.UncertainTopK(order="asc", **query), None, speeds, chances)
    highest = sb.uncertain.replay(sb.UncertainTopK(**query), None, [-speed for speed in speeds], chances)
    assert lowest["score"].to_pylist() == [abs(score) for score in highest["score"].to_pylist()]
    assert math.copysign(1, lowest["score"].to_pylist()[-1]) == 1
    assert lowest.drop_columns("score").equals(highest.drop_columns("score"))
    both = [sb.UncertainTopK(name=order, order=order, **query) for order in ("asc", "desc")]
    with pytest.raises(sb.InvalidQueryError, match=r"'asc' and 'desc' have different orders .*for each order"):
        sb.uncertain.Monitor(both)
    monitor = sb.uncertain.Monitor(both[0])
    with pytest.raises(sb.InvalidQueryError, match="different orders"):
        monitor.add(both[1])
