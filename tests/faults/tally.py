"""What a run of the suite has injected and looked at, counted over all processes and printed at its end.

Counts travel with the tests' reports, so that they are whole with any number of processes.
"""

from __future__ import annotations

import json
import os
from collections import Counter, defaultdict
from pathlib import Path

FAULTS, WINDOWS, NOTE = "skyband faults", "skyband windows", "skyband note"
KINDS = ("checked", "lost", "doubled", "wrong")


class Tally:
    """Counts faults and windows for one test."""

    def __init__(self, properties):
        self._properties = properties

    def fault(self, kind, count=1):
        """A fault was injected."""
        self._properties.append((FAULTS, {kind: count}))

    def note(self, text):
        """Something to know about the run."""
        self._properties.append((NOTE, text))

    def check(self, found, wanted):
        """Compare rows ``(query, group, moment, rank, …)``: every window is there, once, and as it should be."""
        mine, theirs = _by_window(found), _by_window(wanted)
        lost = sorted(theirs.keys() - mine.keys(), key=repr)
        doubled = sorted((key for key, rows in mine.items() if max(rows.values()) > 1), key=repr)
        wrong = sorted((key for key, rows in mine.items() if set(rows) != set(theirs.get(key, ()))), key=repr)
        counts = zip(KINDS, map(len, (theirs, lost, doubled, wrong)), strict=True)
        self._properties.append((WINDOWS, dict(counts)))
        assert theirs, "there are windows to check"
        assert not lost, f"{len(lost)} of {len(theirs)} windows are lost, among them {lost[:5]}"
        assert not doubled, f"{len(doubled)} of {len(theirs)} windows are there twice, among them {doubled[:5]}"
        examples = [(key, sorted(mine[key]), sorted(theirs.get(key, ()))) for key in wrong[:3]]
        assert not wrong, f"{len(wrong)} of {len(theirs)} windows are wrong, among them {examples}"

    def check_extra(self, rows, every, *, joined):
        """A query whose joining was cut short: from its first window on it is whole, or was until it was forgotten."""
        first, last = min(row[2] for row in rows), max(row[2] for row in rows)
        wanted = [row for row in every if row[2] >= first and (joined or row[2] <= last)]
        self.check(rows, [(rows[0][0], *row[1:]) for row in wanted])

    def check_answers(self, found, wanted):
        """The same for ``{(query, group): [(start, end, rank, id, score), …]}``."""
        self.check(*([(*key, *row[1:]) for key, rows in one.items() for row in rows] for one in (found, wanted)))


def _by_window(rows):
    found = defaultdict(Counter)
    for row in rows:
        found[row[:3]][row[3:]] += 1
    return found


def summed(reports):
    """Faults by kind, windows by what became of them, and notes, over all reports of a run."""
    faults, windows, notes = Counter(), Counter(), []
    for report in reports:
        for name, told in report.user_properties if getattr(report, "when", None) == "call" else ():
            if name == NOTE:
                notes.append(told)
            elif name in (FAULTS, WINDOWS):
                (faults if name == FAULTS else windows).update(told)
    return faults, windows, notes


def pytest_terminal_summary(terminalreporter):
    """Print the tally; where SKYBAND_FAULTS_FOLDER names a folder, write it there, too."""
    reports = [report for reports in terminalreporter.stats.values() for report in reports]
    faults, windows, notes = summed(report for report in reports if hasattr(report, "user_properties"))
    if not windows:
        return
    terminalreporter.section("faults")
    for kind, count in sorted(faults.items()):
        terminalreporter.write_line(f"{count:>7,}  {kind}")
    told = ", ".join(f"{windows[kind]:,} {kind}" for kind in KINDS[1:])
    terminalreporter.write_line(
        f"{sum(faults.values()):>7,}  faults injected; {windows['checked']:,} windows checked: {told}"
    )
    for note in notes:
        terminalreporter.write_line(note)
    if "SKYBAND_FAULTS_FOLDER" in os.environ:
        path = Path(os.environ["SKYBAND_FAULTS_FOLDER"], "tally.json")
        path.write_text(json.dumps({"faults": faults, "windows": windows}, indent=2))
