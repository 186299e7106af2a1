"""What was changed while a file ran: it survives crashes, and the file itself is right where they disagree."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

import skyband as sb
from skyband.jobs.checked_lines import sealed
from skyband.jobs.journal import MOST_TRIES, Change, Journal, added_queries, changed, given_up
from tests.workload_file.files import FAMILIES, SHORT, read  # noqa: F401 - a fixture

NEW = sb.TopK(name="new", k=3, size="1 hour", by="price")
QUERIES = [
    NEW,
    sb.AggregateTopK(name="a", k=3, size="1 hour", key="client", value="bytes", partition_by=["x"]),
    sb.IncompleteTopK(name="i", k=3, size=5, object="o", stream="s", value="v", streams=["r", "t"], weights={"r": 2}),
    sb.UncertainTopK(name="u", k=3, size="1 hour", by="x", probability="p", semantics="pt-k", threshold=0.5),
]


@pytest.fixture
def journal(tmp_path):
    return Journal(tmp_path / "state")


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.family)
def test_changes_come_back(journal, query):
    wanted = [Change("add", "s", query), Change("drop", "s", query)]
    for one in wanted:
        journal.append(one)
    assert journal.read() == wanted


def test_there_is_nothing_before_the_first(journal):
    assert journal.read() == []
    journal.clear()


def test_what_cannot_be_written_whole_leaves_nothing(journal, monkeypatch):
    journal.append(Change("add", "s", NEW))

    def is_full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", is_full)
    with pytest.raises(OSError, match="No space left"):
        journal.append(Change("drop", "s", NEW))
    monkeypatch.undo()
    assert journal.read() == [Change("add", "s", NEW)]


def test_what_a_crash_cut_off_does_not_count(journal):
    journal.append(Change("add", "s", NEW))
    whole = journal.path.read_bytes()
    confirmed = journal.confirmed_path.read_bytes()
    journal.append(Change("drop", "s", NEW))
    both = journal.path.read_bytes()
    for end in range(len(whole) + 1, len(both) - 1, 3):
        journal.path.write_bytes(both[:end])
        journal.confirmed_path.write_bytes(confirmed)
        assert journal.read() == [Change("add", "s", NEW)], both[:end]
        journal.append(Change("drop", "s", NEW))
        assert journal.read() == [Change("add", "s", NEW), Change("drop", "s", NEW)], both[:end]


@pytest.mark.parametrize(
    "line", ['{"kind": "burn", "stream": "s", "query": {"type": "topk", "k": 1, "size": 5}}', "x", "[]"]
)
def test_what_is_no_change_is_told_with_its_line(journal, line):
    journal.append(Change("add", "s", NEW))
    with journal.path.open("a") as file:
        file.write(line + "\n")
    with pytest.raises(sb.SnapshotError, match=r"changes.jsonl:2 is not a valid change"):
        journal.read()


@pytest.mark.parametrize("version", [1, 2, 3])
def test_lines_of_an_earlier_version_are_read(journal, version):
    journal.path.parent.mkdir(parents=True)
    journal.path.write_bytes((Path(__file__).parents[1] / "golden" / f"journal_version_{version}.jsonl").read_bytes())
    wanted = [Change("add", "s", query) for query in QUERIES]
    assert journal.read() == wanted
    journal.append(Change("drop", "s", NEW))  # in the current version
    assert journal.read() == [*wanted, Change("drop", "s", NEW)]


def test_a_line_of_a_later_version_is_rejected(journal):
    journal.append(Change("add", "s", NEW))
    later = {**json.loads(journal.path.read_text()), "version": 99}
    del later["check"]
    journal.path.write_bytes(sealed(later) + b"\n")
    before = journal.path.read_bytes()
    with pytest.raises(sb.SnapshotError, match=r"changes.jsonl:1 cannot be read: .* journal of changes has version 99"):
        journal.read()
    assert journal.path.read_bytes() == before


def test_a_file_with_its_changes(read):  # noqa: F811
    file = read(SHORT)
    assert [query.name for query in changed(file, [Change("add", "trades", NEW)]).workloads["trades"]] == ["big", "new"]
    back = changed(file, [Change("add", "trades", NEW), Change("drop", "trades", NEW)])
    assert back == file


def test_what_was_dropped_may_come_back(read):  # noqa: F811
    file = read(SHORT)
    (big,) = file.workloads["trades"]
    changes = [Change("add", "trades", NEW), Change("drop", "trades", big), Change("add", "trades", big)]
    assert [query.name for query in changed(file, changes).workloads["trades"]] == ["new", "big"]


def test_the_file_is_right_where_it_was_edited(read):  # noqa: F811
    file = read(SHORT.replace("name: big", "name: new"))
    other = sb.TopK(name="new", k=99, size="1 hour", by="price")
    assert changed(file, [Change("add", "trades", other)]) == file
    assert changed(file, [Change("drop", "trades", other)]) == file
    assert changed(file, [Change("add", "gone", NEW)]) == file


def test_the_last_query_of_a_stream_stays(read):  # noqa: F811
    file = read(FAMILIES)
    (heavy,) = file.workloads["flows"]
    assert changed(file, [Change("drop", "flows", heavy)]) == file


def test_who_is_on_trial_is_asked(read):  # noqa: F811
    file = read(SHORT)
    tried = changed(file, [Change("try", "trades", NEW)])
    assert [query.name for query in tried.workloads["trades"]] == ["big", "new"]
    assert changed(file, [Change("try", "trades", NEW), Change("add", "trades", NEW)]) == tried
    assert (
        changed(file, [Change("try", "trades", NEW), Change("add", "trades", NEW), Change("drop", "trades", NEW)])
        == file
    )


def test_the_newest_guest_comes_first(read):  # noqa: F811
    other = sb.TopK(name="other", k=1, size="1 hour", by="price")
    changes = [Change("try", "trades", NEW), Change("try", "trades", other), Change("add", "trades", NEW)]
    file = changed(read(SHORT), changes)
    assert added_queries(file, changes, "trades", ["big"]) == [other, NEW]
    changes += [Change("drop", "trades", NEW), Change("try", "trades", NEW)]
    assert added_queries(file, changes, "trades", ["big"]) == [NEW, other]


def test_the_files_queries_are_asked_again_if_no_other_is_left(read):  # noqa: F811
    """The file's query was dropped while another ran, which then was dropped because it broke the stream."""
    file = read(SHORT)
    (big,) = file.workloads["trades"]
    assert (
        changed(file, [Change("try", "trades", NEW), Change("drop", "trades", big), Change("drop", "trades", NEW)])
        == file
    )


def test_what_does_not_fit_the_file_any_more_is_left_out(read):  # noqa: F811
    """It was edited since, and its queries are of another family, or count rows."""
    file = read(SHORT)
    rows = sb.TopK(name="rows", k=1, size=500, by="price")
    assert changed(file, [Change("add", "trades", rows), Change("add", "trades", QUERIES[1])]) == file


def test_what_java_ends_with_is_given_up():
    other = sb.TopK(name="other", k=1, size="1 hour", by="price")
    tries = [Change("try", "s", NEW), Change("add", "s", other), *[Change("try", "s", NEW)] * (MOST_TRIES - 2)]
    assert given_up(tries) == []
    assert given_up([*tries, Change("try", "s", NEW)]) == [Change("drop", "s", NEW)]
    for since in ("add", "drop"):  # a micro-batch was done, or it is not asked any more
        assert given_up([*tries, Change("try", "s", NEW), Change(since, "s", NEW)]) == []
