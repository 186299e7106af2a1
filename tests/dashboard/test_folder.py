"""A folder of answers: of any family, from anybody, finished or growing, with or without a workload."""

from __future__ import annotations

import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skyband as sb
from skyband import streams
from skyband.dashboard.board_state import state_of
from skyband.dashboard.boards import board, moments
from skyband.dashboard.folder import FolderShow
from skyband.dashboard.wire import group_key
from skyband.errors import InvalidInputError
from tests.dashboard.making import answers
from tests.dashboard.seeded import step, workload_file


def shown(folder, file=None):
    show = FolderShow(folder, file)
    show.scan()
    show.refresh()
    return show


def query(show, name):
    return next(one for one in state_of(show)["queries"] if one["name"] == name)


def write(rows, path):
    """As a sink does: whole or not there, and under the same name another file."""
    hidden = path.with_name(f".{path.name}")
    pq.write_table(rows, hidden)
    os.replace(hidden, path)


def test_answers_of_all_families_without_a_workload(tmp_path):
    home, folder = tmp_path / "home", tmp_path / "answers"
    home.mkdir()
    folder.mkdir()
    file = workload_file(home, many=20)
    for number in (1, 2):
        for stream, rows in step(file, number).items():
            write(rows, folder / f"{stream}-{number:08}.parquet")
    show = shown(folder)
    families = {one["name"]: one["family"] for one in state_of(show)["streams"]}
    assert families == {
        "trades": "topk",
        "many": "topk",
        "clients": "aggregate",
        "flows": "incomplete",
        "cars": "uncertain",
    }
    assert query(show, "thousand")["k"] == 1000
    assert query(show, "busiest")["window"] == "1 hour, every 1 minute"
    assert len(board(show.history, "thousand")["rows"]) == 1000
    assert query(show, "largest")["groups"] == []
    assert query(show, "by symbol")["groups"] == ["symbol"]
    assert len(moments(show.history, "fast", None)["moments"]) == 2


def test_groups_are_found_by_the_ranks(tmp_path):
    windows = [("by", symbol, 1, [(1, 3.0), (2, 2.0)]) for symbol in "abc"]
    windows.append(("all", "a", 1, [(1, 3.0)]))
    write(answers(windows, groups=True), tmp_path / "x.parquet")
    show = shown(tmp_path)
    assert query(show, "by")["groups"] == ["symbol"]
    assert query(show, "all")["groups"] == []
    assert show.history.groups("by") == (3, [["a"], ["b"], ["c"]])
    assert query(show, "by")["columns"] == ["id"]


def test_groups_that_only_a_later_file_tells(tmp_path):
    write(answers([("q", "a", 1, [(1, 3.0)])], groups=True), tmp_path / "1.parquet")
    show = shown(tmp_path)
    assert query(show, "q")["groups"] == []
    write(answers([("q", "a", 2, [(1, 3.0)]), ("q", "b", 2, [(1, 2.0)])], groups=True), tmp_path / "2.parquet")
    show.scan()
    show.refresh()
    assert query(show, "q")["groups"] == ["symbol"]
    assert len(moments(show.history, "q", group_key(["a"]))["moments"]) == 2
    assert len(moments(show.history, "q", group_key(["b"]))["moments"]) == 1


def test_ties_are_no_groups(tmp_path):
    rows = answers([("q", "a", 1, [(1, 3.0), (2, 3.0), (3, 1.0)])], groups=True)
    rows = rows.set_column(rows.column_names.index("rank"), "rank", pa.array([1, 1, 3], pa.int32()))
    symbols = pa.array(["a", "b", "c"])
    write(rows.set_column(1, "symbol", symbols), tmp_path / "x.parquet")
    assert query(shown(tmp_path), "q")["groups"] == []


def test_rows_in_no_order_at_all(tmp_path):
    whole = answers([("q", None, minute, [(place, 9.0 - place) for place in range(5)]) for minute in (3, 1, 2)])
    shuffled = whole.take(pa.array([11, 3, 7, 0, 14, 5, 9, 2, 12, 6, 1, 13, 4, 8, 10]))
    write(shuffled.slice(0, 7), tmp_path / "part-0.parquet")
    write(shuffled.slice(7), tmp_path / "part-1.parquet")
    show = shown(tmp_path)
    for minute in (1, 2, 3):
        found = board(show.history, "q", moment=minute * 60_000_000)
        assert [row["id"] for row in found["rows"]] == [0, 1, 2, 3, 4]
    assert query(show, "q")["groups"] == []


def test_files_come_go_and_are_replaced(tmp_path):
    write(answers([("q", None, 1, [(1, 1.0)])]), tmp_path / "s-00000001.parquet")
    show = shown(tmp_path)
    assert show.scan() == 0
    write(answers([("q", None, 1, [(77, 1.0)])]), tmp_path / "s-00000001.parquet")
    write(answers([("q", None, 2, [(2, 1.0)])]), tmp_path / "s-00000002.parquet")
    assert show.scan() == 2
    show.refresh()
    assert board(show.history, "q", moment=60_000_000)["rows"][0]["id"] == 77
    assert board(show.history, "q")["left"] == [{"id": 77, "old_rank": 1, "score": 1.0}]
    (tmp_path / "s-00000002.parquet").unlink()
    assert show.scan() == 1
    show.refresh()
    assert len(moments(show.history, "q", None)["moments"]) == 1


def test_what_is_unfinished_or_no_answers_is_passed_over(tmp_path):
    good = answers([("q", None, 1, [(1, 1.0)])])
    write(good, tmp_path / "good.parquet")
    (tmp_path / "cut.parquet").write_bytes((tmp_path / "good.parquet").read_bytes()[:100])
    (tmp_path / "_temporary").mkdir()
    write(answers([("hidden", None, 1, [(1, 1.0)])]), tmp_path / "_temporary" / "x.parquet")
    write(pa.table({"a": [1]}), tmp_path / "other.parquet")
    (tmp_path / "deep" / "er").mkdir(parents=True)
    write(answers([("deep", None, 1, [(1, 1.0)])]), tmp_path / "deep" / "er" / "x.parquet")
    assert set(shown(tmp_path).history.names()) == {"q", "deep"}


def test_one_query_without_a_name(tmp_path):
    write(answers([("q", None, 1, [(1, 1.0)])]).drop_columns(["query"]), tmp_path / "x.parquet")
    assert shown(tmp_path).history.names() == [tmp_path.name]


def test_what_the_library_answers_in_process(tmp_path):
    trades = streams.trades(20_000, seed=1)
    work = sb.Workload(
        [
            sb.TopK(name="big", k=3, size="1 minute", slide="10 seconds"),
            sb.TopK(name="each", k=2, size="30 seconds", slide="10 seconds", partition_by="symbol"),
        ]
    )
    table = sb.replay(work, trades.position, trades.score, trades.trade_id, groups=trades.symbol)
    write(table, tmp_path / "answers.parquet")
    show = shown(tmp_path)
    assert query(show, "big")["groups"] == []
    assert query(show, "each")["groups"] == ["group"]
    rows = table.to_pylist()
    last = max(row["window_end"] for row in rows if row["query"] == "big")
    wanted = [row["id"] for row in rows if row["query"] == "big" and row["window_end"] == last]
    assert [row["id"] for row in board(show.history, "big")["rows"]] == wanted


def test_a_workload_gives_names_and_k(tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "answers").mkdir()
    file = workload_file(tmp_path / "home", many=3)
    for stream, rows in step(file, 1).items():
        write(rows, tmp_path / "answers" / f"{stream}-00000001.parquet")
    show = shown(tmp_path / "answers", file)
    found = query(show, "by symbol")
    assert (found["k"], found["groups"], found["window"]) == (3, ["symbol"], "15 minutes, every 1 minute")
    assert found["text"].startswith("'by symbol': TOPK price, 3 BY symbol")
    assert show.history.groups("by symbol")[0] == 300
    assert (
        board(show.history, "largest")["rows"][0]["id"]
        == board(show.history, "largest")["rows"][0]["details"]["trade_id"]
    )


def test_windows_of_a_count(tmp_path):
    rows = answers([("q", None, 1, [(1, 1.0)])])
    for name in ("window_start", "window_end"):
        rows = rows.set_column(rows.column_names.index(name), name, pa.array([900 if name == "window_end" else 400]))
    write(rows, tmp_path / "x.parquet")
    show = shown(tmp_path)
    assert query(show, "q")["axis"] == "count"
    assert board(show.history, "q")["moment"] == 900
    assert query(show, "q")["window"] == "500 rows"


def test_a_folder_larger_than_there_is_room_for(tmp_path):
    for minute in range(30):
        write(
            answers([("q", None, minute, [(place, 1.0) for place in range(200)])]), tmp_path / f"s-{minute:08}.parquet"
        )
        os.utime(tmp_path / f"s-{minute:08}.parquet", (1000 + minute, 1000 + minute))
    show = FolderShow(tmp_path)
    show._most = 5 * (tmp_path / "s-00000000.parquet").stat().st_size + 100
    assert 4 <= show.scan() <= 6
    show.refresh()
    assert board(show.history, "q")["moment"] == "1970-01-01T00:29:00+00:00"
    assert show.scan() == 0


def test_what_is_no_folder_is_refused(tmp_path):
    with pytest.raises(InvalidInputError, match=r"must be in a folder of Parquet files, .* Run the file first"):
        FolderShow(tmp_path / "nothing")
