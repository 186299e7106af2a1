"""Windows that the history has no room for are read from the files of the folder, with the same rows."""

from __future__ import annotations

import os

import numpy as np
import pyarrow as pa
import pytest

from skyband.dashboard.archive import FolderArchive, _newest_moment
from skyband.dashboard.boards import board, moments
from skyband.dashboard.folder import FolderShow
from skyband.dashboard.history import History
from skyband.dashboard.read_views import window_table
from skyband.dashboard.wire import group_key
from tests.dashboard.asking import served
from tests.dashboard.making import MINUTE, answers
from tests.dashboard.test_folder import write

WINDOWS = 400


@pytest.fixture
def folder(tmp_path):
    """Four files of one writer, with two groups that have a window each minute, except every tenth."""
    for part in range(4):
        minutes = [minute for minute in range(part * 100, part * 100 + 100) if minute % 10]
        windows = [
            ("q", symbol, minute, [(f"{symbol}{minute}-{place}", 9.0 - place) for place in range(3)])
            for minute in minutes
            for symbol in ("a", "b")
        ]
        write(answers(windows, groups=True), tmp_path / f"part-{part}.parquet")
    return tmp_path


def limited(folder, **limits):
    show = FolderShow(folder, history=History(**limits))
    show.scan()
    show.refresh()
    return show


@pytest.mark.parametrize("limits", [{"most_windows": 20}, {"most_bytes": 60_000}, {}])
def test_every_window_of_the_files_can_be_read(folder, limits):
    show = limited(folder, **limits)
    store, key = show.history, group_key(["a"])
    wanted = [minute for minute in range(WINDOWS) if minute % 10]
    found = moments(store, "q", key)
    assert found["dropped"] == 0
    assert len(found["moments"]) == len(wanted)
    for place in (0, 1, 9, 200, len(wanted) - 1):
        minute = wanted[place]
        one = board(store, "q", key, minute * MINUTE)
        assert [row["id"] for row in one["rows"]] == [f"a{minute}-{rank}" for rank in range(3)]
        assert (one["previous"], one["dropped"]) == (found["moments"][place - 1] if place else None, 0)
        assert [left["id"] for left in one["left"]] == (
            [f"a{wanted[place - 1]}-{rank}" for rank in range(3)] if place else []
        )
    assert board(store, "q", key, 10 * MINUTE) is None
    rows, rest = window_table(store, "q", key, (15 * MINUTE, 25 * MINUTE), 5)
    assert (rows["id"].to_pylist()[::3], rest) == ([f"a{minute}-0" for minute in range(15, 20)], 21 * MINUTE)


def test_files_that_are_not_read_at_all_are_read_for_a_window(folder):
    show = FolderShow(folder)
    show._most = 10_000  # bytes: of the files, only the newest fits
    show.scan()
    with served(show) as page:
        assert (
            page.get("board", query="q", group='["b"]', moment="1970-01-01T00:05:00+00:00")["rows"][0]["id"] == "b5-0"
        )
        found = page.get("v1/windows", query="q", group='["b"]', limit=1000)
        assert (found["total"], found["dropped"], found["windows"][0]["rows"]) == (360, 0, 3)
        (folder / "part-0.parquet").unlink()
        show.scan()
        assert page.status("board", query="q", group='["b"]', moment="1970-01-01T00:05:00+00:00")[0] == 404
        assert page.get("v1/windows", query="q", group='["b"]')["total"] == 270


@pytest.mark.parametrize("kind", [pa.int64(), pa.timestamp("ms"), pa.timestamp("ns", "Europe/Berlin"), pa.date32()])
def test_moments_of_any_type(tmp_path, kind):
    days = pa.array(np.arange(1, 61) * 86_400_000_000)
    times = days if pa.types.is_integer(kind) else days.cast(pa.timestamp("us")).cast(kind, safe=False)
    rows = pa.table({"query": ["q"] * 60, "window_end": times, "rank": [1] * 60, "score": [1.0] * 60, "id": range(60)})
    write(rows, tmp_path / "x.parquet")
    show = limited(tmp_path, most_windows=10)
    found = moments(show.history, "q", None)
    assert (len(found["moments"]), found["dropped"]) == (60, 0)
    assert [board(show.history, "q", None, 86_400_000_000 * day)["rows"][0]["id"] for day in (1, 2, 31)] == [0, 1, 30]


def index_builds(monkeypatch):
    """The files that are indexed from now on, in order."""
    found, read = [], FolderArchive._read

    def noted(self, path, moment):
        if moment is None:
            found.append(path.name)
        return read(self, path, moment)

    monkeypatch.setattr(FolderArchive, "_read", noted)
    return found


def test_the_newest_window_is_shown_without_an_index_of_the_files(folder, monkeypatch):
    indexed = index_builds(monkeypatch)
    show = limited(folder, most_bytes=60_000)
    assert show.history.has_dropped
    for key in (None, group_key(["a"]), group_key(["b"])):
        one = board(show.history, "q", key)
        assert (one["moment"], one["previous"]) == ("1970-01-01T06:39:00+00:00", "1970-01-01T06:38:00+00:00")
        assert len(one["left"]) == 3
    assert indexed == []
    assert board(show.history, "q", None, 5 * MINUTE)["rows"][0]["id"] == "a5-0"
    assert len(indexed) == 4


@pytest.mark.parametrize("newest", [399, 95])
def test_files_that_are_not_read_are_indexed_if_they_may_be_newer(folder, monkeypatch, newest):
    if newest == 95:  # the files with newer windows have earlier times, as after a copy
        for part in range(4):
            os.utime(folder / f"part-{part}.parquet", (10**9 - part, 10**9 - part))
    indexed = index_builds(monkeypatch)
    show = FolderShow(folder)
    show._most = 10_000  # bytes: of the files, only the last one fits
    show.scan()
    show.refresh()
    one = board(show.history, "q", group_key(["b"]))
    if newest == 399:
        assert (indexed, one["previous"], one["next"]) == ([], "1970-01-01T06:38:00+00:00", None)
    else:
        assert (len(indexed), one["moment"], one["next"]) == (
            4,
            "1970-01-01T01:39:00+00:00",
            "1970-01-01T01:41:00+00:00",
        )


def test_the_newest_window_after_dropped_ones_has_the_previous_window_of_the_files(tmp_path, monkeypatch):
    for minute in range(1, 60):
        rows = [(f"{minute}-{place}", 9.0 - place) for place in range(3)]
        write(answers([("q", "a", minute, rows)]), tmp_path / f"part-{minute:03}.parquet")
        os.utime(tmp_path / f"part-{minute:03}.parquet", (10**9 + minute, 10**9 + minute))
    late = answers([("other", "a", minute, [("x", 1.0)]) for minute in range(60, 186)])
    write(late, tmp_path / "part-900.parquet")
    indexed = index_builds(monkeypatch)
    show = limited(tmp_path, most_bytes=60_000)
    assert show.history.line("q")[-2].moment < 58 * MINUTE
    one = board(show.history, "q")
    assert (one["moment"], one["previous"]) == ("1970-01-01T00:59:00+00:00", "1970-01-01T00:58:00+00:00")
    assert [left["id"] for left in one["left"]] == ["58-0", "58-1", "58-2"]
    assert indexed


@pytest.mark.parametrize("kind", [pa.int64(), pa.timestamp("ms"), pa.timestamp("us", "Europe/Berlin"), pa.date32()])
def test_the_newest_moment_of_a_file_is_in_its_statistics(tmp_path, kind):
    days = pa.array(np.arange(1, 61) * 86_400_000_000)
    times = days if pa.types.is_integer(kind) else days.cast(pa.timestamp("us")).cast(kind, safe=False)
    write(pa.table({"window_end": times, "rank": [1] * 60}), tmp_path / "x.parquet")
    assert _newest_moment(tmp_path / "x.parquet") == 60 * 86_400_000_000
    write(pa.table({"window_end": times.cast(pa.string()), "rank": [1] * 60}), tmp_path / "y.parquet")
    assert _newest_moment(tmp_path / "y.parquet") is None
    assert _newest_moment(tmp_path / "none.parquet") is None
