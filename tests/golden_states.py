"""States as earlier versions of the library stored them: shards of all families amid a stream, and monitors.

The files in ``tests/golden/states`` are never written again: a change of a state's format adds files of the new version
and a migration. ``python -m tests.golden_states FOLDER`` writes those of the code at hand. The streams are drawn from
fixed seeds, so that a test can go on where the file stopped.
"""

from __future__ import annotations

import gzip
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

import skyband as sb
from skyband.aggregate import open_panes, state_store
from skyband.aggregate.ordered_shard import in_answer_order
from skyband.aggregate.reducer import sum_rows
from skyband.aggregate.shard import merged as merged_totals
from skyband.incomplete.plan import IncompletePlan
from skyband.incomplete.reducer import gather_rows
from skyband.incomplete.shard import merged as merged_objects
from skyband.sharding.shard import MemorySegments, Shard, shard_type
from skyband.topk.reducer import reduce_rows
from skyband.uncertain.reducer import weigh_rows
from tests.aggregate import oracle as aggregate_oracle
from tests.aggregate import test_shard as aggregate_shards
from tests.incomplete import test_shard as incomplete_shards
from tests.oracle import Asked
from tests.sharding import cases, pipeline
from tests.sharding.cases import Posed
from tests.uncertain import test_reducer as uncertain_reducer

FOLDER = Path(__file__).parent / "golden" / "states"
ENGINES = Path(__file__).parent / "golden" / "engines"  # a folder for each version of the format of monitors
MS = 1000
DELAY = 8 * MS
BATCH = 20


class Step(NamedTuple):
    """A micro-batch: what a task is given, and the watermark before it."""

    rows: pa.Table
    watermark: int | None


class Stored(NamedTuple):
    """What a shard has stored: its value, and its segments by number."""

    blob: bytes
    segments: dict[int, bytes]


class Case(NamedTuple):
    """A workload and a stream through all of its shards."""

    name: str
    plan: Any
    steps: list[Step]
    reduce: Callable[..., Any]
    read: Callable[[list[pa.Table]], list[Any]]  # a step's tables of all shards as plain answers
    wanted: list[Any] | None  # all answers by the definitions; None: only compared with a run without a restart

    @property
    def shards(self) -> int:
        return self.plan.units

    @property
    def half(self) -> int:
        """How many steps are behind the stored states."""
        return len(self.steps) // 2

    def run(self, first: int, stop: int | None, states: list[Stored] | None = None, *, restarts: bool = False) -> Ran:
        """Step all shards from one step to another, or to the end of the stream."""
        shards = [self._shard(number, states and states[number]) for number in range(self.shards)]
        answers = []
        ending = [] if stop is not None else [None]
        for step in [*self.steps[first:stop], *ending]:
            arrived = [] if step is None else list(self.reduce(self.plan, step.rows.to_batches(max_chunksize=7)))
            tables = []
            for number, shard in enumerate(shards):
                mine = [one for one in arrived if one.shard == number]
                rows = [one.rows for one in mine]
                notes = [shard.note_type.from_bytes(one.note.to_bytes()) for one in mine]
                watermark = None if step is None else step.watermark
                tables += shard.step(rows, notes, watermark, end=step is None)[0]
                if restarts:
                    shards[number] = self._shard(number, _stored(shard))
            answers += self.read([table for table in tables if table.num_rows])
        return Ran(answers, [_stored(shard) for shard in shards])

    def _shard(self, number: int, stored: Stored | None) -> Shard:
        kind = shard_type(self.plan)
        if stored is None:
            return kind(self.plan, number)
        return kind.resume(self.plan, number, stored.blob, MemorySegments(stored.segments))


class Ran(NamedTuple):
    """What a run gave, and what it left behind."""

    answers: list[Any]
    states: list[Stored]


def _stored(shard: Shard) -> Stored:
    blob = shard.state()
    return Stored(blob, dict(shard.segments))


def steps_of(rows: list[Any], table: Callable[[list[Any]], pa.Table], seed: str) -> list[Step]:
    """Rows, whose first value is their position, in disordered micro-batches; no row is late."""
    arrival = cases.disordered(cases.rng("golden", seed), rows, DELAY)
    found, watermark = [], None
    for low in range(0, len(arrival), BATCH):
        found.append(Step(table(arrival[low : low + BATCH]), watermark))
        watermark = (max(row[0] for row in arrival[: low + BATCH]) - DELAY) // MS * MS
    return found


POSED = [
    Posed("all", Asked(k=3, size=40 * MS, slide=10 * MS), {"by": "s"}),
    Posed("full", Asked(k=2, size=30 * MS, slide=15 * MS, full_only=True), {"by": "-s", "where": "odd"}),
    Posed("each", Asked(k=1, size=60 * MS, slide=20 * MS, origin=7 * MS), {"by": "s", "partition_by": ["g"]}),
]
COUNTED = [
    Posed("all", Asked(k=3, size=12, slide=5), {"by": "s"}),
    Posed("each", Asked(k=2, size=7, slide=3, origin=1), {"by": "-s", "partition_by": ["g"]}),
]


def topk(name: str, axis: str, output: str = "answers") -> Case:
    """Rankings of rows; a feed of changes is compared with a run without a restart."""
    posed = POSED if axis == "time" else COUNTED
    plan = replace(pipeline.plan_of([one.query(axis) for one in posed], shards=2), output=output)
    rows = cases.draw_rows(cases.rng("golden", name), 120)
    steps = steps_of(rows, lambda part: pipeline.scored(plan, part), name)
    if output == "changes":
        return Case(name, plan, steps, reduce_rows, _plain, None)

    def read(tables: list[pa.Table]) -> list[Any]:
        found = cases.answered([row for table in tables for row in table.to_pylist()], posed)
        return _sorted((*key, *answer) for key, answers in found.items() for answer in answers)

    wanted = [
        (*key, *answer) for one in posed for key, found in cases.wanted(one, rows, axis).items() for answer in found
    ]
    return Case(name, plan, steps, reduce_rows, read, wanted)


def aggregate(name: str) -> Case:
    """Aggregates of all kinds, by group."""
    random = cases.rng("golden", name)
    kinds = {"sum": {}, "avg": {"full_only": True}, "max": {}, "min": {"size": "35 milliseconds"}}
    queries = [
        sb.AggregateTopK(**{
            "name": kind, "k": 2, "size": "60 milliseconds", "slide": "5 milliseconds", "aggregate": kind,
            "key": "key", "value": "value", "partition_by": ["g"], **more,
        })
        for kind, more in kinds.items()
    ]  # fmt: skip
    plan = aggregate_shards.plan_of(queries, grouped=True)
    rows, position = [], 50 * MS
    for _ in range(160):
        position += random.choice([0, 0, 300, 1000, 2500, 4000])
        value = random.choice([0.1, 0.2, 0.3, -1.0, 1e16, 1e-300])
        rows.append(aggregate_oracle.Row(position, random.choice(["a", "b", "abcdefghi"]), value, random.choice("xy")))
    steps = steps_of(rows, lambda part: pa.Table.from_batches([aggregate_shards.task(part, pa.string(), True)]), name)

    def read(tables: list[pa.Table]) -> list[Any]:
        return _sorted(aggregate_shards.told(plan, merged_totals(plan, 0, tables))) if tables else []

    return Case(name, plan, steps, sum_rows, read, aggregate_oracle.answers(queries, rows, grouped=True))


def aggregate_rows(name: str) -> Case:
    """Newest, oldest and best rows of keys, which answers return."""
    random = cases.rng("golden", name)
    queries = [
        sb.AggregateTopK(
            name=kind, k=2, size="60 milliseconds", slide="5 milliseconds", aggregate=kind, key="key", value="value",
            row=kind != "first", order="asc" if kind == "max" else "desc", having="count(*) > 1",
        )
        for kind in ("max", "latest", "first")
    ]  # fmt: skip
    plan = aggregate_shards.plan_of(queries)
    rows, position = [], 50 * MS
    for number in range(160):
        position += random.choice([0, 0, 300, 1000, 2500, 4000])
        value = random.choice([0.1, 0.2, -1.0, 1e16])
        rows.append(aggregate_oracle.Row(position, random.choice("abc"), value, None, number * 77 % 160))
    steps = steps_of(rows, lambda part: pa.Table.from_batches([aggregate_shards.task(part, pa.string(), True)]), name)

    def read(tables: list[pa.Table]) -> list[Any]:
        return _sorted(aggregate_shards.told(plan, merged_totals(plan, 0, tables))) if tables else []

    return Case(name, plan, steps, sum_rows, read, aggregate_oracle.answers(queries, rows))


def aggregate_in_order(name: str, windows: dict[str, Any]) -> Case:
    """Totals and rows of the last rows of each group, or of its sessions."""
    random = cases.rng("golden", name)
    queries = [
        sb.AggregateTopK(
            name=kind, k=2, aggregate=kind, key="key", value="value", row=kind == "max", share=kind == "sum",
            max_keys=9, partition_by=["g"], **windows,
        )
        for kind in ("sum", "max", "latest")
    ]  # fmt: skip
    plan = aggregate_shards.plan_of(queries, grouped=True)
    rows, position = [], 50 * MS
    for number in range(160):
        position += random.choice([0, 0, 300, 1000, 2500, 4000])
        value = random.choice([0.1, 0.2, -1.0, 1e16])
        rows.append(aggregate_oracle.Row(position, random.choice("abc"), value, random.choice("xyz"), number))

    def table(part: list[Any]) -> pa.Table:
        found = pa.Table.from_batches([aggregate_shards.task(part, pa.string(), True)])
        homes = pa.array(["xyz".index(row.group) % 2 for row in part], pa.int32())
        return found.set_column(found.column_names.index("home"), "home", homes)

    def read(tables: list[pa.Table]) -> list[Any]:
        return _sorted(aggregate_shards.told(plan, in_answer_order(plan, 0, tables))) if tables else []

    numbered = [row._replace(position=row.position if "gap" in windows else None) for row in rows]
    wanted = _sorted(aggregate_oracle.answers(queries, numbered))
    return Case(name, plan, steps_of(rows, table, name), sum_rows, read, wanted)


def aggregate_sketch(name: str) -> Case:
    """Bounds of the totals of keys, by group. They depend on the order of arrival, but not on restarts."""
    random = cases.rng("golden", name)
    queries = [
        sb.AggregateTopK(
            name=f"every {slide}", k=2, size="60 milliseconds", slide=f"{slide} milliseconds", key="key", value="value",
            partition_by=["g"], method="sketch", counters=3,
        )
        for slide in (5, 20)
    ]  # fmt: skip
    plan = aggregate_shards.plan_of(queries, grouped=True)
    rows, position = [], 50 * MS
    for _ in range(200):
        position += random.choice([0, 0, 0, 300, 1000])
        key = random.choice(["a", "b", *(f"abcdefghi{number}" for number in range(20))])
        rows.append(aggregate_oracle.Row(position, key, random.choice([0.1, 1.0, 7.0, 1e16]), random.choice("xy")))
    steps = steps_of(rows, lambda part: pa.Table.from_batches([aggregate_shards.task(part, pa.string(), True)]), name)

    def read(tables: list[pa.Table]) -> list[Any]:
        return _plain([merged_totals(plan, 0, tables)]) if tables else []

    return Case(name, plan, steps, sum_rows, read, None)


def incomplete(name: str, axis: str, *, together: bool = False) -> Case:
    """Objects of three streams, with both exact methods, or by queries that share instances."""
    random = cases.rng("golden", name)
    sizes = {"size": "50 milliseconds", "every": "10 milliseconds"} if axis == "time" else {"size": 30, "every": 7}
    shared = {**sizes, "streams": ["a", "b", "c"], "occurrences": 2, **incomplete_shards.SHARED}
    queries = (
        sb.IncompleteTopK(name="sum", k=3, **shared),
        sb.IncompleteTopK(name="least", k=2, aggregate="min", method="sorted-lists", **shared),
    )
    if together:
        bounds = {"a": (0, 1), "b": (0, 1.5), "c": (0, 2)}
        score = {**shared, "bounds": bounds, "aggregate": "a * b + sqrt(c)"}
        queries = tuple(sb.IncompleteTopK(name=f"best {k}", k=k, **score) for k in (1, 4, 2))
    plan = IncompletePlan(queries=queries, shards=2 if axis == "time" else 1, refuse_late=False)
    rows, position = [], 50 * MS
    for number in range(140):
        position += random.choice([0, 0, 300, 1000, 2500, 4000])
        rows.append((position, f"o{random.randint(0, 9)}", random.choice("abc"), random.randint(0, 8) / 8, number))
    steps = steps_of(rows, lambda part: incomplete_shards.rows_of(*zip(*part, strict=True)), name)
    wanted = []
    for query in queries:
        positions = None if axis == "count" else np.array([row[0] for row in rows])
        columns = ([row[place] for row in rows] for place in (1, 2, 3))
        wanted += _plain([sb.incomplete.replay(query, positions, *columns)])

    def read(tables: list[pa.Table]) -> list[Any]:
        return _plain(
            [merged_objects(plan, tables).select(["query", "time", "rank", "object", "score"])] if tables else []
        )

    return Case(name, plan, steps, gather_rows, read, wanted)


def uncertain(name: str, axis: str) -> Case:
    """Uncertain tuples, with rules, and one query that ranks streams."""
    random = cases.rng("golden", name)
    on_time = axis == "time"
    shared = {"by": "s", "probability": "p", "rule": "r", "size": "40 milliseconds" if on_time else 30}
    every = (lambda number: f"{number} milliseconds") if on_time else (lambda number: number)
    queries = [
        sb.UncertainTopK(name="often", k=2, every=every(4), **shared),
        sb.UncertainTopK(name="deep", k=3, every=every(10), semantics="pt-k", threshold=0.02, **shared),
        sb.UncertainTopK(name="streams", k=1, every=every(20), stream="site", **shared),
    ]
    plan = uncertain_reducer.plan_of(queries)
    rows = uncertain_reducer.drawn(random, 140)
    steps = steps_of(rows, lambda part: uncertain_reducer.table_of(part, len(plan.classes)), name)
    columns = [list(column) for column in zip(*rows, strict=True)]
    positions = np.array(columns[0]) if on_time else None
    answered = sb.uncertain.replay(queries, positions, *columns[1:5], plan=plan.method, streams=columns[5])
    names = ["query", "time", "rank", "id", "score", "probability"]

    def read(tables: list[pa.Table]) -> list[Any]:
        return _plain([table.select(names) for table in tables])

    return Case(name, plan, steps, weigh_rows, read, read([answered]))


def _plain(tables: list[pa.Table]) -> list[Any]:
    rows = [row for table in tables for row in table.to_pylist()]
    return _sorted(tuple(_rounded(row[name]) for name in sorted(row)) for row in rows)


def _rounded(value: Any) -> Any:
    return round(value, 12) if isinstance(value, float) else value


def _sorted(rows: Any) -> list[Any]:
    return sorted(rows, key=repr)


CASES: dict[str, Callable[[], Case]] = {
    "topk_time": lambda: topk("topk_time", "time"),
    "topk_count": lambda: topk("topk_count", "count"),
    "topk_changes": lambda: topk("topk_changes", "time", "changes"),
    "aggregate_time": lambda: aggregate("aggregate_time"),
    "aggregate_rows": lambda: aggregate_rows("aggregate_rows"),
    "aggregate_count": lambda: aggregate_in_order("aggregate_count", {"size": 12, "slide": 5, "origin": 1}),
    "aggregate_sessions": lambda: aggregate_in_order("aggregate_sessions", {"gap": "3 milliseconds"}),
    "aggregate_sketch": lambda: aggregate_sketch("aggregate_sketch"),
    "incomplete_time": lambda: incomplete("incomplete_time", "time"),
    "incomplete_count": lambda: incomplete("incomplete_count", "count"),
    "incomplete_shared": lambda: incomplete("incomplete_shared", "time", together=True),
    "uncertain_time": lambda: uncertain("uncertain_time", "time"),
    "uncertain_count": lambda: uncertain("uncertain_count", "count"),
}


def load(folder: Path, case: Case) -> list[Stored]:
    """The states of a case's shards that are stored in a folder."""
    found = []
    for number in range(case.shards):
        name = f"{case.name}.{number}"
        segments = {
            int(path.name.removeprefix(f"{name}.segment").removesuffix(".gz")): read(path)
            for path in folder.glob(f"{name}.segment*.gz")
        }
        found.append(Stored(read(folder / f"{name}.state.gz"), segments))
    return found


def save(folder: Path, case: Case, states: list[Stored]) -> None:
    """Store the states of a case's shards in a folder."""
    for number, stored in enumerate(states):
        write(folder / f"{case.name}.{number}.state.gz", stored.blob)
        for key, data in stored.segments.items():
            write(folder / f"{case.name}.{number}.segment{key}.gz", data)


def read(path: Path) -> bytes:
    """A stored state."""
    return gzip.decompress(path.read_bytes())


def write(path: Path, data: bytes) -> None:
    """Store a state, compressed: some have room for much more than they hold."""
    path.write_bytes(gzip.compress(data, mtime=0))


class Watched(NamedTuple):
    """A monitor over a stream: how it begins, what it is shown, and all answers."""

    monitor: Callable[[], Any]
    resume: Callable[[bytes], Any]
    push: Callable[[Any, slice], None]
    wanted: Callable[[], pa.Table]


ROWS = 120


def _columns(name: str) -> tuple[Any, ...]:
    random = cases.rng("golden monitor", name)
    steps = [random.choice([0, 0, 300, 1000, 2500, 4000]) for _ in range(ROWS)]
    positions = np.cumsum(steps) + 50 * MS
    scores = np.array([random.randint(0, 12) / 8 for _ in range(ROWS)])
    labels = [random.choice("abcdefgh") for _ in range(ROWS)]
    others = [random.choice("xyz") for _ in range(ROWS)]
    return positions, scores, labels, others


def _window(axis: str, slide: str = "slide") -> dict[str, Any]:
    if axis == "time":
        return {"size": "50 milliseconds", slide: "10 milliseconds"}
    return {"size": 30, slide: 7}


def _watched(family: Any, queries: Any, *columns: Any, **more: Any) -> Watched:
    keywords = {name: more.pop(name) for name in ("groups",) if name in more}

    def push(monitor: Any, part: slice) -> None:
        chosen = {name: values[part] for name, values in keywords.items()}
        monitor.push(*(None if column is None else column[part] for column in columns), **chosen)

    return Watched(
        lambda: family.Monitor(queries, **more),
        family.Monitor.resume,
        push,
        lambda: family.replay(queries, *columns, **keywords, **more),
    )


def monitors() -> dict[str, Watched]:
    """Monitors of all families, on both axes."""
    found = {}
    for axis in ("time", "count"):
        name = f"{axis}"
        positions, scores, labels, others = _columns(name)
        positions = positions if axis == "time" else None
        asked = [sb.TopK(name="three", k=3, **_window(axis)), sb.TopK(name="low", k=2, order="asc", **_window(axis))]
        for algorithm in ("panes", "mintopk", "sma", "naive"):
            some = asked if algorithm in ("panes", "naive") else asked[:1]
            found[f"topk_{axis}_{algorithm}"] = _watched(sb, some, positions, scores, algorithm=algorithm)
        sums = [
            sb.AggregateTopK(
                name=kind, k=2, aggregate=kind, partition_by=["g"] if kind == "sum" else (), **_window(axis)
            )
            for kind in ("sum", "max", "avg")
        ]
        found[f"aggregate_{axis}"] = _watched(sb.aggregate, sums, positions, labels, scores, groups=others)
        newest = [
            sb.AggregateTopK(name=kind, k=2, aggregate=kind, row=True, **_window(axis)) for kind in ("latest", "min")
        ]
        found[f"aggregate_{axis}_rows"] = _watched(sb.aggregate, newest, positions, labels, scores)
        heavy = [
            sb.AggregateTopK(
                name=kind, k=2, aggregate=kind, partition_by=["g"], method="sketch", counters=2, **_window(axis)
            )
            for kind in ("sum", "count")
        ]
        found[f"aggregate_{axis}_sketch"] = _watched(sb.aggregate, heavy, positions, labels, scores, groups=others)
        for method in ("exact", "sorted-lists", "approximate"):
            query = sb.IncompleteTopK(
                name="q", k=3, method=method, streams=["x", "y", "z"], bounds=(0.0, 1.5), occurrences=2,
                **_window(axis, "every"),
            )  # fmt: skip
            found[f"incomplete_{axis}_{method}"] = _watched(sb.incomplete, query, positions, labels, others, scores)
        flagged = sb.IncompleteTopK(name="q", k=2, method="approximate", streams=["x", "y", "z"], bounds=(0.0, 1.5),
            **_window(axis, "every"))  # fmt: skip
        parts = [f"{label}{row // 9}" for row, label in enumerate(labels)]
        found[f"incomplete_{axis}_flagged"] = _watched(sb.incomplete, flagged, positions, parts, others, scores)
        scored = {
            "streams": ["x", "y", "z"],
            "bounds": dict.fromkeys("xyz", (0, 1.5)),
            "aggregate": "x * y + sqrt(z)",
        }
        for occurrences in (2, "once"):
            together = [
                sb.IncompleteTopK(name=f"q{k}", k=k, occurrences=occurrences, **scored, **_window(axis, "every"))
                for k in (3, 1)
            ]
            # With "once", the objects are those of one stream each.
            parts = labels if occurrences == 2 else [f"{label}{row}" for row, label in enumerate(labels)]
            found[f"incomplete_{axis}_shared_{occurrences}"] = _watched(
                sb.incomplete, together, positions, parts, others, scores
            )
        chances = [(1 + int(8 * score)) / 128 for score in scores]
        rules = [label if label in "ab" else None for label in labels]
        unsure = [
            sb.UncertainTopK(name="often", k=2, **_window(axis, "every")),
            sb.UncertainTopK(name="deep", k=3, semantics="pt-k", threshold=0.02, **_window(axis, "every")),
        ]
        found[f"uncertain_{axis}"] = _watched(sb.uncertain, unsure, positions, scores, chances, rules)
        # Version 3: the column of ranking functions, and a plan that is chosen.
        every = (lambda number: f"{number} milliseconds") if axis == "time" else (lambda number: number)
        weighed = [
            sb.UncertainTopK(
                name=f"every {number}", k=2, semantics="prf", size=_window(axis)["size"], every=every(number), **more
            )
            for number, more in ((4, {"weights": [1, 0.5, 0.25]}), (6, {"alpha": 0.75}), (15, {"weights": [0, 1]}))
        ]
        found[f"uncertain_{axis}_weighed"] = _watched(sb.uncertain, weighed, positions, scores, chances, rules)
    return found


def engine_monitors() -> dict[str, Watched]:
    """Monitors with the engines whose stored form changed after version 2 of the format."""
    found = {}
    for axis in ("time", "count"):
        positions, scores, _, _ = _columns(axis)
        positions = positions if axis == "time" else None
        asked = [sb.TopK(name="three", k=3, **_window(axis)), sb.TopK(name="one", k=1, **_window(axis))]
        for algorithm in ("mintopk", "mtoplist", "sap", "sap-equal"):
            some = asked if algorithm == "mtoplist" else asked[:1]
            found[f"topk_{axis}_{algorithm}"] = _watched(sb, some, positions, scores, algorithm=algorithm)
    return found


def main(folder: Path) -> None:
    """Store the states of the code at hand."""
    folder.mkdir(parents=True, exist_ok=True)
    state_store._SEGMENT = open_panes._SEGMENT = 16  # several segments, and small ones
    for make in CASES.values():
        case = make()
        save(folder, case, case.run(0, case.half, restarts=True).states)
    for name, watched in monitors().items():
        monitor = watched.monitor()
        watched.push(monitor, slice(0, ROWS // 2))
        write(folder / f"monitor_{name}.snapshot.gz", monitor.snapshot())
    store_engines(folder / str(sb.Monitor.state_format.version))


def store_engines(folder: Path) -> None:
    """Store the snapshots of `engine_monitors`."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, watched in engine_monitors().items():
        monitor = watched.monitor()
        watched.push(monitor, slice(0, ROWS // 2))
        write(folder / f"{name}.snapshot.gz", monitor.snapshot())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
