"""What may change between two runs: each cell of the table in the documentation is tried, and compared."""

from __future__ import annotations

import datetime as dt
import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import skyband as sb
from skyband.jobs import run, run_local
from skyband.jobs.local_verification import verify_local
from tests.jobs.test_followed_against_spark import write

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "upgrading.md"
SECOND = 1_000_000
FILES = 4
STREAM = (
    "streams: {{s: {{path: in, format: parquet, time: {time}, id: {id}, watermark: 0 seconds, files_per_batch: 1}}}}"
)
QUERIES = {
    "TopK": "k: 3, size: 60 seconds, slide: 20 seconds, by: v, partition_by: [g]",
    "AggregateTopK": "type: aggregate, k: 3, size: 60 seconds, slide: 20 seconds, key: n, value: v, partition_by: [g]",
    "IncompleteTopK": (
        "type: incomplete, k: 3, size: 60 seconds, every: 20 seconds, object: g, stream_by: r, value: v, "
        "streams: [a, b], occurrences: 99, bounds: [0, 9]"
    ),
    "UncertainTopK": "type: uncertain, k: 3, size: 60 seconds, every: 20 seconds, by: v, probability: p",
}
# The text to replace in the query, and by what; None: something else changes.
CHANGES = {
    "`k` smaller": ("k: 3", "k: 2"),
    "`k` larger": ("k: 3", "k: 5"),
    "`size` smaller": ("size: 60", "size: 40"),
    "`size` larger": ("size: 60", "size: 80"),
    "`slide` or `every` smaller": (": 20 seconds", ": 10 seconds"),
    "`slide` or `every` larger": (": 20 seconds", ": 30 seconds"),
    "other `partition_by`": ("[g]", "[r]"),
    "no `partition_by`": (", partition_by: [g]", ""),
    "another score or value": (": v,", ": w,"),
    "another filter": (", size", ", where: n > 0, size"),
    "a new name": ("name: q", "name: other"),
    "`algorithm`": ("engine: {", "engine: {algorithm: kskyband, "),
    "another `id` column": ("id: id", "id: number"),
    "another type of the `id` column": ("id: id", "id: label"),
    "another type of a group or key": None,
    "another time column": ("time: at", "time: later"),
    "more `shards`, without Spark": ("engine: {", "engine: {shards: 3, "),
    "more `shards`, on Spark": ("engine: {", "engine: {shards: 3, "),
    "with and without Spark": None,
}
REASONS = {
    "no `partition_by`": "was written with feeds=.*Restore the previous value",
    "another score or value": "was written with columns=.*Restore the previous value",
    "another filter": "was written with columns=.*Restore the previous value",
    "another `id` column": r"was (written|started) with .*id.*[Uu]se id=|cannot be resumed with",
    "another type of the `id` column": "was written with .*(Use id=|Restore the previous value)",
    "another type of a group or key": "was written with|changed type|type",
    "another time column": "was written with|time",
    "more `shards`, on Spark": r"written with shards=.* cannot be resumed with shards=3\. Restore the previous value",
    "with and without Spark": r"was written by a run on Spark, and --local cannot resume it",
}
NOT_POSSIBLE = r"not supported|engine\.shards|algorithm|same size|sizes"
QUICK = "another time column"  # without `long`
ON_SPARK = ("more `shards`, on Spark", "with and without Spark")


def table():
    """The cells of the table, by change and family."""
    found = {}
    lines = PAGE.read_text().partition("## What may change between two runs")[2].splitlines()
    rows = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines if line.startswith("| ")]
    families = [name.strip("`") for name in rows[0][1:]]
    for change, *cells in rows[1 : 1 + len(CHANGES)]:
        for family, cell in zip(families, cells, strict=True):
            found[change, family] = cell
    return found


CELLS = table()


def parts(seed=5, rows=240):
    """Files of rows in order, so that the runs have no late rows and answer what one run over all rows answers."""
    rng = np.random.default_rng(seed)
    at = (np.sort(rng.integers(0, 300, rows)) + 50) * SECOND
    ids = rng.permutation(rows)
    whole = pa.table(
        {
            "at": pa.array(at).cast(pa.timestamp("us", "UTC")),
            "later": pa.array(at + SECOND).cast(pa.timestamp("us", "UTC")),
            "id": ids,
            "number": ids + 1,
            "label": ids.astype(str),
            "v": rng.choice([0, 0.5, 1, 3, 9], rows),
            "w": rng.integers(0, 9, rows).astype(float),
            "g": rng.choice(["x", "y", "z"], rows),
            "n": rng.integers(0, 3, rows),
            "r": rng.choice(["a", "b"], rows),
            "p": rng.choice([0.2, 0.5, 0.9, 1.0], rows),
        }
    )
    return [whole.slice(number * rows // FILES, rows // FILES) for number in range(FILES)]


def text(family):
    """A file with a query that changes, and one that does not."""
    return "\n".join(
        [
            STREAM.format(time="at", id="id"),
            f"queries:\n  - {{name: q, {QUERIES[family]}}}",
            f"  - {{name: kept, {QUERIES[family].replace('k: 3', 'k: 1')}}}",
            "sinks: [{type: memory}]\nengine: {checkpoint: state}\n",
        ]
    )


def changed(family, change):
    """The file after the change, of which a query is the first one; None if the family has nothing to change."""
    before = text(family)
    if CHANGES[change] is None:
        return before
    old, new = CHANGES[change]
    return before.replace(old, new, 1) if old in before else None


def windows(found):
    """The rows of each window of each query."""
    answers = {}
    if found is not None:
        moment = "window_end" if "window_end" in found.column_names else "time"
        for row in found.to_pylist():
            answers.setdefault((row["query"], row[moment]), []).append(repr(sorted(row.items())))
    return {key: sorted(rows) for key, rows in answers.items()}


def begun(folder, content, running=run_local, mode="catch-up", **more):
    (folder / "work.yaml").write_text(content)
    started = running(sb.read_workload(folder / "work.yaml"), mode, **more)
    assert started.await_end(300)
    return windows(started.memory("s"))


def over_all(folder, content):
    """The answers of one run over all rows; of uncertain queries at every time that a schedule can choose."""
    if "uncertain" in content:
        content = re.sub(r"every: \d+", "every: 10", content)
    return begun(folder, content.replace("checkpoint: state", "checkpoint: once"), mode="once")


def lengths(content, name):
    """The size and the slide of a query."""
    line = next(line for line in content.splitlines() if f"name: {name}," in line)
    return (dt.timedelta(seconds=int(re.search(rf"(?:{key}): (\d+) sec", line)[1])) for key in ("size", "slide|every"))


def compared(content, change, cell, before, after, whole, newest):
    """Compare the answers of a resumed run with those of one run over all rows, window by window."""
    last = max(end for _, end in after)
    is_regular = "uncertain" not in content
    for name in ("kept", "other" if change == "a new name" else "q"):
        own = {key: found for key, found in after.items() if key[0] == name}
        wanted = {key: found for key, found in whole.items() if key[0] == name and key[1] <= last}
        size, slide = lengths(content, name)
        if not is_regular:  # answered at times that the queries share, at least once per `every`
            ends = sorted(end for _, end in own)
            assert all(later - end <= slide for end, later in pairwise(ends)), ends
            wanted = {key: found for key, found in wanted.items() if key in own}
            last_before = max((end for query, end in before if query == name), default=newest)
            assert ends[0] - last_before <= slide if name == "kept" else newest < ends[0] - size + slide
            assert ends[0] > last_before
        if name == "kept" or cell == "continues":
            wanted = {key: found for key, found in wanted.items() if key not in before}
        elif is_regular:
            begin = min(end for _, end in own)
            assert newest < begin - size <= newest + slide
            wanted = {key: found for key, found in wanted.items() if key[1] >= begin}
        assert own == wanted != {}, name


def with_other_types(rows):
    """The rows with a key and a group of other types."""
    for name in ("n", "g"):
        place = rows.schema.get_field_index(name)
        other = rows[name].cast(pa.string()) if name == "n" else pa.array(np.arange(len(rows)) % 3)
        rows = rows.set_column(place, name, other)
    return rows


@pytest.mark.parametrize(
    ("change", "family"),
    [
        pytest.param(*cell, marks=() if cell[0] == QUICK else pytest.mark.long)
        for cell in CELLS
        if cell[0] not in ON_SPARK
    ],
)
def test_a_change_without_spark(tmp_path, change, family):
    cell, rows, before = CELLS[change, family], parts(), text(family)
    content, rest = changed(family, change), rows[2:]
    if content is None:
        assert cell == "–"
        return
    write(tmp_path / "in", rows[:2])
    answered = begun(tmp_path, before)
    if change == "another type of a group or key":
        (tmp_path / "in").rename(tmp_path / "before")
        rest = [with_other_types(part) for part in rest]
    write(tmp_path / "in", rest, begin=2)
    if cell in ("rejected", "–"):
        with pytest.raises(sb.SkybandError) as caught:
            begun(tmp_path, content)
        assert re.search(REASONS[change] if cell == "rejected" else NOT_POSSIBLE, str(caught.value)), caught.value
        after = begun(tmp_path, before) if change != "another type of a group or key" else {}
        assert {name for name, _ in after} in ({"q", "kept"}, set()), "the stored state is unchanged"
        return
    after = begun(tmp_path, content)
    if family != "UncertainTopK":
        assert verify_local(sb.read_workload(tmp_path / "work.yaml"), "s").agrees
    whole = over_all(tmp_path, content)
    assert answered
    compared(content, change, cell, answered, after, whole, rows[1]["at"][-1].as_py())


@pytest.mark.long
@pytest.mark.parametrize(
    ("change", "family"),
    [
        *((change, family) for change in ON_SPARK for family in QUERIES),
        *(("`k` larger", family) for family in QUERIES),
        ("another type of the `id` column", "TopK"),
        ("another type of the `id` column", "AggregateTopK"),
        ("no `partition_by`", "AggregateTopK"),
    ],
)
def test_a_change_on_spark(spark, tmp_path, change, family):
    cell, rows, before, content = CELLS[change, family], parts(), text(family), changed(family, change)
    if (change, family) == ("no `partition_by`", "AggregateTopK"):
        cell = "rejected"  # as the page says below the table
    write(tmp_path / "in", rows[:2])
    answered = begun(tmp_path, before, run, spark=spark)
    write(tmp_path / "in", rows[2:], begin=2)
    if cell in ("rejected", "–"):
        engine = {"running": run_local} if change == "with and without Spark" else {"running": run, "spark": spark}
        with pytest.raises(sb.SkybandError) as caught:
            begun(tmp_path, content, **engine)
        assert re.search(REASONS[change] if cell == "rejected" else NOT_POSSIBLE, str(caught.value)), caught.value
        return
    after = begun(tmp_path, content, run, spark=spark)
    whole = over_all(tmp_path, content)
    compared(content, change, cell, answered, after, whole, rows[1]["at"][-1].as_py())


def test_the_page_has_every_change():
    assert {change for change, _ in CELLS} == set(CHANGES)
    assert set(CELLS.values()) == {"new", "continues", "rejected", "–"}
