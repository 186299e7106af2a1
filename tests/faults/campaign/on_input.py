"""Faults of the rows, of their files, and of the queries."""

from __future__ import annotations

import time

import skyband as sb
from skyband.jobs.mailbox import mailbox_of
from tests.faults import work
from tests.faults.campaign.blow import blow
from tests.faults.campaign.feeder import FAR, WRONG_TIME
from tests.faults.campaign.on_processes import AWAY

MOST_EXTRA = 3  # queries at a time that joined while it ran
SQL = "TOPK s, 5 OVER 15 SECONDS EVERY 5 SECONDS"


@blow("files", 3)
def file_of_late_rows(stage, random):
    """Rows a leap of event time behind the newest answers, which count neither now nor later."""
    if stage.answered() < 0:
        return None  # before the first watermark, they are not late
    ts = stage.feeder.newest() - FAR
    rows = [row._replace(ts=ts + place) for place, row in enumerate(work.rows_of(random.randrange(1000)))]
    stage.feeder.put(rows)
    return f"{len(rows)} rows"


@blow("files", 3)
def file_of_rows_without_a_time(stage, random):
    wrong = random.choice([None, WRONG_TIME])
    rows = [row._replace(ts=wrong) for row in work.rows_of(random.randrange(1000))]
    stage.feeder.put(rows)
    return f"{len(rows)} rows"


@blow("files", 3)
def file_of_rows_with_invalid_text(stage, random):
    return f"{stage.feeder.break_text(random)} rows"


@blow("files", 3)
def file_with_another_time(stage, random):
    return "a file that was read before" if stage.feeder.touch(stage.answered(), random) else None


@blow("files", 3)
def file_that_is_not_complete(stage, random):
    """The beginning of a file under a hidden name, as writers leave it when they die."""
    (stage.folder / "in" / f".left-{time.monotonic_ns()}.parquet").write_bytes(b"PAR1" + random.randbytes(40))
    return "under a hidden name"


@blow("files", 1, ends_run=True)
def file_that_is_damaged(stage, random):
    """Truncated, or no file of this format; some time later, somebody replaces it."""
    mend = stage.feeder.spoil(random)
    try:
        time.sleep(random.uniform(0.5, 2 * AWAY))
    finally:
        mend()
    return "and replaced"


@blow("files", 4)
def file_that_comes_twice(stage, random):
    return "one of the newest" if stage.feeder.repeat() else None


@blow("files", 4)
def files_in_another_order(stage, random):
    stage.feeder.swap(random)
    return "two, and all their rows"


@blow("files", 4)
def file_with_other_columns(stage, random):
    return stage.feeder.drift(random)


@blow("queries", 4)
def change_of_the_queries(stage, random):
    """Add a query, or drop one that was added, or both at once; other faults may follow before the reply."""
    box = mailbox_of(sb.read_workload(stage.file, stage.variables))
    if not box.is_heard():
        return None
    dropped = len(stage.extra) >= MOST_EXTRA or (bool(stage.extra) and random.random() < 0.3)
    if dropped:
        box.send({"kind": "drop", "name": stage.extra.pop(random.randrange(len(stage.extra)))})
    if len(stage.extra) == MOST_EXTRA or (dropped and random.random() < 0.5):
        return "dropped"
    stage.extra.append(f"extra{stage.numbers}")
    stage.numbers += 1
    box.send({"kind": "add", "sql": f"{stage.extra[-1]}: {SQL}", "stream": "rows"})
    return "dropped and added" if dropped else "added"
