"""Queries that join a stream on Spark with their past are answered as if they had been there from the start."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys

import pytest

import skyband as sb
from skyband.jobs import run, run_local
from skyband.jobs.control_server import LiveChanges
from tests.jobs.test_history import (
    AGGREGATES,
    BASE,
    NEW,
    OBJECTS,
    STREAM,
    S,
    of_family,
    some_batches,
    within,
    write,
)
from tests.waiting import wait_for

pytestmark = pytest.mark.long
CHANCES = "type: uncertain, k: 2, size: 20 seconds, every: 5 seconds, by: x, probability: '0.5'"
FAMILIES = {
    "topk": (BASE[0], *(f"{{name: new, {fields}" for fields in (NEW[0], NEW[3], NEW[7], NEW[9]))),
    "aggregate": (f"{{name: base, {AGGREGATES[0]}}}", f"{{name: new, {AGGREGATES[3]}", f"{{name: new, {AGGREGATES[1]}"),
    "incomplete": (f"{{name: base, {OBJECTS[0]}}}", f"{{name: new, {OBJECTS[0].replace('k: 2', 'k: 3')}"),
    "uncertain": (f"{{name: base, {CHANCES}}}", f"{{name: new, {CHANCES.replace('k: 2', 'k: 3')}"),
}
CASES = [(family, place) for family, queries in FAMILIES.items() for place in range(1, len(queries))]


def read(folder, queries, delay=12, more="", engine=""):
    folder.mkdir(exist_ok=True)
    stream = STREAM.format(id_="id: id, files_per_batch: 1,", delay=delay)
    sinks = f"sinks: [{{type: parquet, path: out{more}}}]\n"
    queries = "".join(f"  - {one}\n" for one in queries)
    (folder / "work.yaml").write_text(f"{stream}queries:\n{queries}{sinks}{engine}")
    return sb.read_workload(folder / "work.yaml")


def feed(folder, batches, begin=0):
    """Write files that are read in this order."""
    for number, batch in enumerate(batches, begin):
        write(folder, batch, number)
        os.utime(folder / "in" / f"{number:03}.parquet", (10**9 + number, 10**9 + number))


def run_until(file, spark, rows, mode="stream"):
    running = run(file, mode, spark=spark)
    wait_for(lambda: not running.await_end(0.05) and running.metrics()["rows"]["rows"] >= rows, 300)
    return running


def from_the_start(folder, queries, batches, joins):
    """The answers with all queries, and the watermark of the stream after the batches before the joining."""
    file = read(folder, queries)
    feed(folder, batches)
    running = run_local(file, "stream")
    running.finish()
    assert running.await_end(300)
    newest = max(row[0] for batch in batches[:joins] for row in batch)
    return newest // 1000 * 1000 - 12 * S


@pytest.mark.parametrize(("family", "place"), CASES)
@pytest.mark.parametrize("live", [False, True], ids=["restart", "live"])
def test_every_family(spark, tmp_path, family, place, live):
    draw = random.Random(repr((family, place, live)))
    batches = some_batches(draw)[:5]
    base, new = FAMILIES[family][0], FAMILIES[family][place]
    joins, since = draw.randint(2, len(batches) - 1), draw.choice([15, 50, 500])
    clock = from_the_start(tmp_path / "a", [base, f"{new}}}"], batches, joins)
    file = read(tmp_path / "b", [base])
    feed(tmp_path / "b", batches[:joins])
    running = run_until(file, spark, sum(map(len, batches[:joins])))
    try:
        if live:
            query = read(tmp_path / "c", [base, f"{new}}}"]).workloads["rows"].queries[1]
            assert "valid from" in LiveChanges(running).add(query, None, since * S)
        else:
            running.stop()
            for path in sorted((tmp_path / "b").rglob("offsets/[0-9]"))[:-2]:
                path.unlink()  # as Spark does after a hundred micro-batches
            file = read(tmp_path / "b", [base, f"{new}, since: {since} seconds}}"])
            running = run(file, "stream", spark=spark)
        feed(tmp_path / "b", batches[joins:], joins)
        running.finish()
    finally:
        running.stop()
    found = rows_of(tmp_path / "a", "new")
    if family in ("uncertain", "incomplete"):
        want = [row for row in found if row[0] - 20 * S >= clock - since * S and row[0] > clock]
    else:
        want = within(found, clock, since * S, new)
    assert rows_of(tmp_path / "b", "new") == want
    assert want
    if family != "uncertain":  # whose plan chooses other moments from the joining on
        assert rows_of(tmp_path / "b", "base") == rows_of(tmp_path / "a", "base")


def rows_of(folder, name):
    """Answers without the order of columns, which follows the groups of all queries."""
    ends = 2 if of_family(folder, name) and not isinstance(of_family(folder, name)[0][1], tuple) else 1
    return sorted(((*row[:ends], *sorted(row[ends:])) for row in of_family(folder, name)), key=repr)


@pytest.mark.faults
@pytest.mark.parametrize("family", ["topk", "aggregate"])
def test_kills_while_the_past_is_read_and_stored(spark, tmp_path, family):
    """Each run is killed with SIGKILL at another moment; the next one reads the past again, or has it."""
    batches = some_batches(random.Random(family))[:5]
    base, new = FAMILIES[family][:2]
    clock = from_the_start(tmp_path / "a", [base, f"{new}}}"], batches, 3)
    file = read(tmp_path / "b", [base])
    feed(tmp_path / "b", batches[:3])
    run_until(file, spark, sum(map(len, batches[:3]))).stop()
    read(tmp_path / "b", [base, f"{new}, since: 1 hour}}"])
    feed(tmp_path / "b", batches[3:], 3)
    codes = [
        subprocess.run(
            [sys.executable, "-m", "tests.jobs.joining_run", tmp_path / "b" / "work.yaml", when], check=False
        )
        for when in ("read", "sent", "delivered", "never")
    ]
    assert [code.returncode for code in codes] == [-signal.SIGKILL] * 3 + [0]
    want = within(rows_of(tmp_path / "a", "new"), clock, 3600 * S, new)
    assert want
    assert rows_of(tmp_path / "b", "new") == want
    assert rows_of(tmp_path / "b", "base") == rows_of(tmp_path / "a", "base")


def test_what_cannot_be_read_again_is_refused_and_the_stream_goes_on(spark, tmp_path):
    batches = some_batches(random.Random(3))[:4]
    file = read(tmp_path, [BASE[0]])
    feed(tmp_path, batches[:2])
    running = run_until(file, spark, sum(map(len, batches[:2])))
    try:
        query = sb.sql("new: TOPK x, 4 OVER 40 SECONDS EVERY 5 SECONDS")
        gone = tmp_path / "in" / "000.parquet"
        content = gone.read_bytes()
        gone.unlink()
        with pytest.raises(sb.InvalidInputError, match="was read by batch 0 and no longer exists"):
            LiveChanges(running).add(query, None, 3600 * S)
        gone.write_bytes(content)
        os.utime(gone, (10**9, 10**9))
        bad = sb.sql("bad: TOPK x, 4 OVER 40 ROWS")
        with pytest.raises(sb.SkybandError, match="axis"):
            LiveChanges(running).add(bad, None, 3600 * S)
        feed(tmp_path, batches[2:], 2)
        running.finish()
    finally:
        running.stop()
    assert [one.name for one in running.file.workloads["rows"]] == ["base"]
    from_the_start(tmp_path / "a", [BASE[0]], batches, 2)
    assert rows_of(tmp_path, "base") == rows_of(tmp_path / "a", "base")
