"""`skyband run` and its like as a user meets them: in processes of their own."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import threading

import pytest

from tests.faults.process import newest as newest_in
from tests.programs import COMMAND, on_terminal, skyband
from tests.sharding import cases
from tests.waiting import wait_for

POSED = cases.Posed("best", cases.Asked(k=2, size=20_000_000, slide=10_000_000), {"by": "s"})
FILE = """
streams:
  rows: {path: in, format: csv, time: ts, time_format: seconds, id: id, watermark: 0 seconds, files_per_batch: 1,
         schema: {ts: double, id: long, g: string, s: double}}
queries: [{name: best, k: 2, size: 20 seconds, slide: 10 seconds, by: s}]
engine: {master: "local[2]", memory: 1g}
"""


@pytest.fixture
def rows(tmp_path):
    rows = [row for row in cases.draw_rows(cases.rng("commands"), 90, scale=1_000_000) if row[1] is not None]
    write(tmp_path / "in", "a.csv", rows[:40])
    (tmp_path / "work.yaml").write_text(FILE)
    return rows


def write(folder, name, rows):
    folder.mkdir(exist_ok=True)
    lines = [
        f"{position / 1e6:.6f},{id_},{group or ''},{str(score).replace('inf', 'Inf')}"
        for position, score, id_, group in rows
    ]
    (folder / f".{name}").write_text("\n".join(["ts,id,g,s", *lines]) + "\n")
    (folder / f".{name}").rename(folder / name)


def found(lines):
    """The answers of JSON lines, in the oracle's plain values."""
    rows = []
    for line in lines:
        row = json.loads(line)
        ends = [cases.micros(cases.dt.datetime.fromisoformat(row[name])) for name in ("window_start", "window_end")]
        rows.append((*ends, row["rank"], row["id"], float(row["score"])))
    return sorted(rows, key=lambda row: row[1:3])


def test_a_stream_is_stopped_with_ctrl_c_goes_on_where_it_stopped_and_fails_at_a_bad_row(tmp_path, rows):
    by = """by: "if(id = 83100, raise_error('no such trade'), s)" """
    (tmp_path / "work.yaml").write_text(FILE.replace("by: s", by))
    reader = {}

    def start():
        running = subprocess.Popen(
            [*COMMAND, "run", "work.yaml", "--json"],
            cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        lines = []
        reader[running.pid] = threading.Thread(target=lambda: lines.extend(running.stdout), daemon=True)
        reader[running.pid].start()
        return running, lines

    def ended(running):
        running.wait(600)
        told = running.stderr.read()
        reader[running.pid].join(300)
        running.stdout.close()
        running.stderr.close()
        return told

    first, before = start()
    wait_for(lambda: before)
    first.send_signal(signal.SIGINT)
    told = ended(first)
    assert first.returncode == 130
    assert "Traceback" not in told
    assert re.search(r"the state is stored in \S+/\.skyband/work\. Resume with: skyband run work\.yaml", told)
    assert not re.search(r"\bWARN\b|\bINFO\b|org\.apache", told), "Spark's log is not for the screen"
    state = tmp_path / ".skyband" / "work" / "rows"
    is_between_batches = newest_in(state / "offsets") == newest_in(state / "commits")
    write(tmp_path / "in", "b.csv", rows[40:])
    second, after = start()
    newest = max(row[0] for row in rows)
    want = [row for row in cases.wanted(POSED, rows)["best", "-"] if row[1] <= newest]
    wait_for(lambda: want[-1] in found(list(after)))
    write(tmp_path / "in", "c.csv", [(newest, 1.0, 83100, "a")])
    told = ended(second)
    assert second.returncode == 3
    assert "the stream stopped" in told
    assert "no such trade" in told
    assert "Traceback" not in told
    shown, then = found(before), found(after)
    again = want.index(then[0])
    assert shown + then[len(shown) - again :] == want
    # Lines of a micro-batch that was cut short come again, and no others.
    assert again == len(shown) if is_between_batches else again <= len(shown)
    assert then == want[again:]


@pytest.mark.long
def test_once_for_machines(tmp_path, rows):
    done = skyband("run", "work.yaml", "--once", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert found(done.stdout.splitlines()) == cases.wanted(POSED, rows[:40])["best", "-"]
    summary = json.loads(done.stderr.splitlines()[-1])
    assert summary["streams"]["rows"]["rows"] == 40


@pytest.mark.long
def test_once_on_a_terminal(tmp_path, rows):
    code, text = on_terminal("run", "work.yaml", "--once", cwd=tmp_path)
    assert code == 0, text
    assert "starting Spark" in text
    assert "best: the 2 best of 20 seconds" in text.replace("\x1b[0m", "").replace("\x1b[1;36m", "")
    assert "rows held at the end" in text
    assert "Traceback" not in text
    assert not re.search(r"\bWARN\b|org\.apache", text)


def test_rows_of_which_none_can_be_ranked(tmp_path):
    """Another column as the time; an exit code of 0 would call the empty answer right."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("day,price\nmonday,1\ntuesday,2\n")
    (tmp_path / "work.yaml").write_text(
        "streams: {t: {path: in, format: csv, time: day}}\n"
        "queries: [{name: q, k: 1, size: 1 hour, by: price}]\nsinks: [{type: jsonl, path: out}]\n"
    )
    done = skyband("run", "work.yaml", "--local", "--once", cwd=tmp_path)
    assert done.returncode == 3
    assert "skyband: stream 't': none of its 2 rows has a time and a score" in done.stderr
    (tmp_path / "in" / "a.csv").write_text("day,price\nmonday,1\n2024-01-01 00:00:00,2\n")
    assert skyband("run", "work.yaml", "--local", "--once", cwd=tmp_path).returncode == 0
