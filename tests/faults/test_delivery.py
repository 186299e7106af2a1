"""Files that bring rows twice, and in any order: duplicates are objects of their own, and order changes nothing."""

from __future__ import annotations

import skyband as sb
from skyband.jobs import run
from tests.faults import work
from tests.sharding import cases

FILES = 6


def test_duplicates_and_disorder(spark, tmp_path, tally):
    """The rows of every third file come twice, and all rows in any order."""
    random = cases.rng("delivery")
    # Of the same rule twice, the rows would exclude each other with more than certainty.
    files = [work.rows_of(number, ruled=False) for number in range(FILES)]
    files += [files[number] for number in range(0, FILES, 3)]
    rows = [row for one in files for row in one]
    tally.fault("file delivered twice", len(files) - FILES)
    sent = rows.copy()
    random.shuffle(sent)
    tally.fault("file out of order", FILES)
    file = work.write_workload(tmp_path, watermark="2 minutes", files=1)
    for number in range(FILES):
        work.write_rows(tmp_path / "in", number, sent[number::FILES])
    work.write_rows(tmp_path / "in", FILES, [work.last_row(3600 * work.SECOND)])
    running = run(sb.read_workload(file), "catch-up", spark=spark)
    assert running.await_end(300)
    assert {one["late"] for one in running.metrics().values()} == {0}
    for found in work.found_in(tmp_path).values():
        tally.check(found, work.wanted(rows))
