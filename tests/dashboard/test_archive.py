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
from skyband.dashboard.read_views import ranks_of, window_table
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
    rows, rest, dropped = window_table(store, "q", key, (15 * MINUTE, 25 * MINUTE), 5)
    assert dropped == 0
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


@pytest.mark.parametrize("limits", [{"most_windows": 20}, {"most_bytes": 60_000}, {}])
def test_the_ranks_of_one_entity_are_those_of_all_files(folder, limits):
    """One entity is in every window of a group, at another place each time."""
    rng = np.random.default_rng(4)
    places = {minute: int(rng.integers(0, 4)) for minute in range(WINDOWS) if minute % 10}
    for part in range(4):
        windows = []
        for minute in range(part * 100, part * 100 + 100):
            if minute % 10:
                ids = ["x", "y", "z"]
                ids[places[minute] : places[minute] + 1] = ["me"]  # place 3: after the end, so it is cut off
                windows.append(("q", "a", minute, [(one, 9.0 - at) for at, one in enumerate(ids[:3])]))
                windows.append(("q", "b", minute, [("me", 1.0)]))
        write(answers(windows, groups=True), folder / f"part-{part}.parquet")
    show = limited(folder, **limits)
    for last in (1, 7, 150, 1000):
        found = ranks_of(show.history, "q", group_key(["a"]), "me", last)
        minutes = sorted(places)[-last:]
        assert [(one["rank"], one["score"], one["dropped"]) for one in found["windows"]] == [
            (places[minute] + 1, 9.0 - places[minute], 0) if places[minute] < 3 else (None, None, 0)
            for minute in minutes
        ]
        assert found["dropped"] == 0


def test_windows_that_memory_has_no_room_for_are_counted():
    """Without files there is nothing to read them from."""
    history = History(most_windows=20)
    for minute in range(1, 100):
        history.put(minute, "s", answers([("q", "a", minute, [("me", 1.0)])]))
        history.settle()
    held = [window.moment // MINUTE for window in history.line("q")]
    assert len(held) <= 20
    gaps = [now - before - 1 for before, now in zip([0, *held], held, strict=False)]
    for last in (5, 1000):
        found = ranks_of(history, "q", None, "me", last)
        assert [one["dropped"] for one in found["windows"]] == gaps[-last:]
        assert found["dropped"] == sum(gaps[-last:])
    rows, rest, dropped = window_table(history, "q", None, (None, None), 1000)
    assert (rows.num_rows, rest, dropped) == (len(held), None, 99 - len(held))
    parts = [window_table(history, "q", None, (low * MINUTE, None), 3) for low in held[::3]]
    assert sum(part.dropped for part in parts) == dropped  # each gap is of one page


def test_a_file_that_is_removed_while_it_is_read_is_counted(folder, monkeypatch):
    show = limited(folder, most_windows=20)
    read = FolderArchive._read

    def removed(self, path, moments):
        return None if moments is not None and path.name == "part-1.parquet" else read(self, path, moments)

    monkeypatch.setattr(FolderArchive, "_read", removed)
    found = ranks_of(show.history, "q", group_key(["a"]), "nobody", 1000)
    held = {one["moment"] for one in found["windows"]}
    assert (len(held) + found["dropped"], found["dropped"]) == (360, 360 - len(held))
    assert found["dropped"] > 50
    after = next(one for one in found["windows"] if one["dropped"])
    assert after["dropped"] > 1


@pytest.mark.parametrize("lost", ["unread", "no room"])
def test_groups_that_only_files_have_are_known(folder, lost):
    old = [("q", f"only {number:03}", 3, [(f"o{number}", 5.0)]) for number in range(300)]
    write(answers(old, groups=True), folder / "part-9.parquet")
    os.utime(folder / "part-9.parquet", (10**9, 10**9))
    if lost == "unread":
        show = FolderShow(folder)
        show._most = 10_000  # bytes: of the files, only the newest fits
    else:
        show = FolderShow(folder, history=History(most_bytes=40_000))
    show.scan()
    with served(show) as page:
        found = page.get("v1/groups", query="q", limit=1000)
        assert found["total"] == 302
        assert found["groups"][:2] == [["a"], ["b"]]
        assert sorted(found["groups"][2:]) == [[f"only {number:03}"] for number in range(300)]
        assert page.get("v1/groups", query="q", like="ONLY 29")["total"] == 10
        window = page.get("v1/window", query="q", group='["only 007"]')
        assert (window["group"], window["moment"], window["is_newest"]) == (
            ["only 007"],
            "1970-01-01T00:03:00+00:00",
            True,
        )
        assert [row["id"] for row in window["rows"]] == ["o7"]
        assert page.get("v1/ranks", query="q", group='["only 007"]', id="o7")["windows"][0]["rank"] == 1
        assert page.get("v1/answers", query="q", group='["only 008"]')["rows"][0][-1] == "o8"
        assert page.get("board", query="q", group='["only 009"]')["rows"][0]["id"] == "o9"
        assert page.status("v1/window", query="q", group='["only 300"]')[0] == 404
        assert page.status("v1/answers", query="q", group='["only 300"]')[0] == 404
