"""Streams of uncertain tuples, and monitors that they are pushed through."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from typing import NamedTuple

import pyarrow as pa

import skyband as sb
from tests.uncertain import oracle

SEMANTICS = ("pk-topk", "global-topk", "pt-k", "u-kranks", "u-topk", "expected-rank", "prf")


class Row(NamedTuple):
    position: int
    score: float
    probability: float
    rule: object
    id: object
    stream: object = None


def random_stream(draw, rows, size, *, gaps=(0, 0, 1, 2, 5), count_axis=False, text_ids=False, streams=None):
    """Tuples with ties and gaps; rules that are used again when their tuples have left the window."""
    found, position = [], draw.randint(-30, 30)
    recent = defaultdict(list)
    for i in range(rows):
        position = i if count_axis else position + draw.choice(gaps)
        rule = draw.choice([None, None, "a", "b", "c"])
        held = sum(units for at, units in recent[rule] if at > position - size) if rule else 0
        if held >= 16:
            rule, held = None, 0
        units = draw.choice([1, 16 - held, draw.randint(1, 16 - held)])
        recent[rule].append((position, units))
        identity = draw.randint(0, 99)
        row = Row(position, float(draw.randint(0, 5)), units / 16, rule, f"id{identity:03}" if text_ids else identity)
        found.append(row if streams is None else row._replace(stream=draw.choice(streams)))
    return found


def random_query(draw, name, size, *, longest=None):
    semantics = draw.choice(SEMANTICS)
    more = {"threshold": draw.choice([0.05, 0.3, 0.5])} if semantics == "pt-k" else {}
    if semantics == "prf":
        more = draw.choice([{"alpha": 0.5}, {"weights": [1, 0.5]}, {"weights": [0.25, 0, 1, 0.5, 0.125]}])
    return sb.UncertainTopK(
        name=name,
        k=draw.randint(1, 4),
        size=size,
        every=draw.randint(1, longest or size),
        semantics=semantics,
        **more,
    )


def timed(query):
    """The same query over time, in microseconds."""
    fields = query.to_dict()
    return sb.UncertainTopK(**{**fields, "size": f"{query.size} microseconds", "every": f"{query.every} microseconds"})


def push(monitor, rows):
    positions = [row.position for row in rows] if monitor.queries[0].axis == "time" else None
    columns = [[getattr(row, name) for row in rows] for name in ("score", "probability", "rule", "id")]
    streams = [row.stream for row in rows]
    monitor.push(positions, *columns, streams=streams if any(label is not None for label in streams) else None)


def run(queries, batches, **options):
    monitor = sb.uncertain.Monitor(queries, **options)
    for batch in batches:
        push(monitor, batch)
    monitor.finish()
    return monitor.answers()


def counts(monitor):
    """The metrics that do not depend on how long something took."""
    return {name: one for name, one in monitor.metrics().items() if name not in ("seconds", "throughput", "latency")}


def own_number(row):
    """The expected rank, or the value of the ranking function; None for other semantics."""
    return next((row[name] for name in ("expected_rank", "prf") if row.get(name) is not None), None)


def cut(draw, rows):
    batches = []
    while rows:
        some = draw.choice([1, 2, 7, 40])
        batches.append(rows[:some])
        rows = rows[some:]
    return batches


def answers_of(table):
    """By query and time: [(id, score, probability, expected rank or value), …]."""
    found = defaultdict(list)
    for row in table.to_pylist():
        mine = found[row["query"], row["time"]]
        mine.append((row["id"], row["score"], row["probability"], own_number(row)))
        assert row["rank"] == len(mine)
    return found


def window(rows, start, end, *, count_axis=False):
    """The tuples of a window in the order that breaks ties."""
    mine = [row for row in rows if start <= row.position < end]
    return mine if count_axis else sorted(mine, key=lambda row: (row.position, row.id))


def check_answer(query, mine, answer):
    """Whether an answer is the one that the list of all worlds says."""
    exact = oracle.tuples([r.score for r in mine], [Fraction(r.probability) for r in mine], [r.rule for r in mine])
    if query.semantics == "u-topk":
        lists = oracle.u_topk_lists(exact, query.k)
        best = max(lists.values())
        likeliest = [one for one, p in lists.items() if p == best]
        shown = [[(mine[i].id, mine[i].score) for i in one] for one in likeliest]
        assert [row[:2] for row in answer] in shown
        assert all(abs(row[2] - best) < 1e-12 for row in answer)
        return
    if query.semantics == "pt-k":
        truth = oracle.pt_k(exact, query.k, Fraction(query.threshold))
    elif query.semantics == "u-kranks":
        truth = oracle.u_kranks(exact, query.k)
    elif query.semantics == "expected-rank":
        truth = oracle.expected_rank(exact, query.k)
    elif query.semantics == "prf":
        truth = oracle.prf(exact, query.k, lambda rank: weight_of(query, rank))
    else:
        truth = oracle.pk_topk(exact, query.k)
    assert [row[:2] for row in answer] == [(mine[i].id, mine[i].score) for i, *_ in truth]
    for row, (_, *numbers) in zip(answer, truth, strict=True):
        assert abs(row[2] - numbers[0]) < 1e-12
        assert (row[3] is None) == (len(numbers) == 1)
        if row[3] is not None:
            assert abs(row[3] - numbers[1]) < 1e-12


def weight_of(query, rank):
    if query.alpha is not None:
        return Fraction(query.alpha) ** rank
    return Fraction(query.weights[rank - 1]) if rank <= len(query.weights) else 0


def check_times(query, rows, times, until, start=None):
    """Whether a query was answered often enough from `start` to `until`: whenever there was something to answer."""
    size, every = query.window.size, query.window.slide
    for begin in [rows[0].position if start is None else start, *sorted(times)]:
        if begin + every > until or any(begin < time <= begin + every for time in times):
            continue
        due = range(begin + 1, begin + every + 1)
        assert any(not any(time - size <= row.position < time for row in rows) for time in due), (query, begin)


def check_restarts(draw, queries, rows):
    """Cuts into batches and restarts after each change no answer; the monitor as it was resumed after its end."""
    whole = run(queries, [rows])
    assert run(queries, cut(draw, rows)) == whole
    monitor, tables = sb.uncertain.Monitor(queries), []
    for batch in cut(draw, rows):
        push(monitor, batch)
        if draw.random() < 0.3:
            tables.append(monitor.answers())
        monitor = sb.uncertain.Monitor.resume(monitor.snapshot(), queries)
    monitor.finish()
    monitor = sb.uncertain.Monitor.resume(monitor.snapshot())
    assert pa.concat_tables([*tables, monitor.answers()]) == whole
    return monitor
