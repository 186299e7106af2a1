"""Which files belong together, and what queries are called that have one name and are two."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skyband as sb
from skyband import streams
from skyband.connectors.folder_writer import FolderWriter
from skyband.dashboard.board_state import state_of
from skyband.dashboard.boards import board, moment_of, moments
from skyband.dashboard.file_sources import Ident, Source, labels_of, source_of
from skyband.dashboard.folder import FolderShow
from skyband.dashboard.query_info import QueryInfo
from skyband.dashboard.wire import group_key
from tests.dashboard.making import answers
from tests.dashboard.test_folder import query, shown, write

TRADES = streams.trades(6_000, seed=3)


def replayed(name, k, size, **more):
    return sb.replay(
        sb.TopK(name=name, k=k, size=size, slide="10 seconds", **more),
        TRADES.position, TRADES.score, TRADES.trade_id, groups=TRADES.symbol if more else None,
    )  # fmt: skip


def windows(table, name=None):
    """The windows of a table of answers: id and score of each rank, by moment and group."""
    found = {}
    for row in table.to_pylist():
        if name in (None, row["query"]):
            found.setdefault((row["window_end"], row.get("group")), []).append((row["rank"], row["id"], row["score"]))
    return found


def on_the_page(show, name):
    """The same, as the page shows them."""
    found = {}
    grouped = bool(query(show, name)["groups"])
    for group in show.history.groups(name, limit=10_000)[1]:
        key = group_key(group)
        for moment in moments(show.history, name, key)["moments"]:
            rows = board(show.history, name, key, moment_of(str(moment)))["rows"]
            at = (moment_of(str(moment)), group[0] if grouped else None)
            found[at] = [(row["rank"], row["id"], row["score"]) for row in rows]
    return found


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("x.parquet", "x.parquet"),
        ("b/x.parquet", "b/x.parquet"),
        ("run1.parquet", "run1.parquet"),
        ("trades-00000001.parquet", "trades"),
        ("trades-00000001.parquet/part-00003.parquet", "trades"),
        ("b/trades-00000001.parquet", "b/trades"),
        ("part-00000-0f6c1c1e-3b8a-4c0e-9a52-1f7e8a1f0b11-c000.snappy.parquet", "top"),
        ("b/day=1/part-00001.parquet", "b"),
        ("part.3.parquet", "top"),
        ("data_0.parquet", "top"),
        ("7.parquet", "top"),
        ("2024.parquet", "top"),
    ],
)
def test_sources(path, place):
    assert source_of(Path("/top", path), Path("/top"), "top").place == place
    assert source_of(Path("/top", path), Path("/top"), "top", alone=True) == Source(path, "file")


def test_labels():
    one, two = Source("a.parquet", "file"), Source("b.parquet", "file")
    idents = [Ident(one, "q"), Ident(two, "q"), Ident(one, "other"), Ident(two, "q (a.parquet)")]
    assert labels_of(idents, {}, {}) == {
        idents[0]: "q (a.parquet) #2",
        idents[1]: "q (b.parquet)",
        idents[2]: "other",
        idents[3]: "q (a.parquet)",
    }
    sizes = [Ident(one, "q", size=5), Ident(one, "q", size=9)]
    assert set(labels_of(sizes, {}, dict(zip(sizes, ["5 rows", "9 rows"], strict=True))).values()) == {
        "q (a.parquet, 5 rows)",
        "q (a.parquet, 9 rows)",
    }
    known = {"q": QueryInfo("q", "s", "topk")}
    assert labels_of([Ident(Source("s", "sink", "s"), "q"), Ident(Source("t", "sink", "t"), "q")], known, {}) == {
        Ident(Source("s", "sink", "s"), "q"): "q",
        Ident(Source("t", "sink", "t"), "q"): "q (t)",
    }


def test_two_files_with_one_name_are_two_queries(tmp_path):
    first, second = replayed("big", 3, "1 minute"), replayed("big", 5, "30 seconds", partition_by="symbol")
    write(first, tmp_path / "a.parquet")
    write(second, tmp_path / "b.parquet")
    write(replayed("other", 2, "20 seconds"), tmp_path / "c.parquet")
    show = shown(tmp_path)
    assert {one["name"]: one["k"] for one in state_of(show)["queries"]} == {
        "big (a.parquet)": 3,
        "big (b.parquet)": 5,
        "other": 2,
    }
    assert on_the_page(show, "big (a.parquet)") == windows(first)
    assert on_the_page(show, "big (b.parquet)") == windows(second)
    (tmp_path / "b.parquet").unlink()
    show.scan()
    show.refresh()
    assert [one["name"] for one in state_of(show)["queries"]] == ["other", "big"]
    assert on_the_page(show, "big") == windows(first)


@pytest.mark.parametrize("other", [("big", 3, "30 seconds"), ("big", 5, "1 minute")], ids=["size", "k"])
@pytest.mark.parametrize("names", [("1", "2"), ("s-00000001", "s-00000002"), ("part-0", "part-1")])
def test_another_size_or_k_in_what_looks_like_a_part(tmp_path, names, other):
    tables = [replayed("big", 3, "1 minute"), replayed(*other)]
    for name, table in zip(names, tables, strict=True):
        write(table, tmp_path / f"{name}.parquet")
    show = shown(tmp_path)
    found = [on_the_page(show, one["name"]) for one in state_of(show)["queries"]]
    assert len(found) == 2
    assert all(windows(table) in found for table in tables)


def test_two_sizes_of_one_name_in_one_file(tmp_path):
    tables = [replayed("big", 3, "1 minute"), replayed("big", 3, "30 seconds")]
    pq.write_table(pa.concat_tables(tables), tmp_path / "x.parquet")
    show = shown(tmp_path)
    found = [on_the_page(show, one["name"]) for one in state_of(show)["queries"]]
    assert found == [windows(tables[1]), windows(tables[0])]


def test_folders_of_one_name_each(tmp_path):
    for folder, score in (("a", 1.0), ("b", 2.0)):
        (tmp_path / folder).mkdir()
        write(answers([("q", None, 1, [(1, score)])]), tmp_path / folder / "s-00000001.parquet")
    show = shown(tmp_path)
    assert [board(show.history, f"q ({name}/s)")["rows"][0]["score"] for name in "ab"] == [1.0, 2.0]


def test_parts_of_one_window_that_go_one_by_one(tmp_path):
    whole = answers([("q", None, 1, [(place, 9.0 - place) for place in range(6)])])
    for part in range(3):
        write(whole.slice(2 * part, 2), tmp_path / f"part-{part}.parquet")
    show = shown(tmp_path)
    for left in ([0, 1, 2, 3, 4, 5], [0, 1, 4, 5], [4, 5]):
        assert [row["id"] for row in board(show.history, "q")["rows"]] == left
        (tmp_path / f"part-{1 if len(left) == 6 else 0}.parquet").unlink(missing_ok=True)
        show.scan()
        show.refresh()
    assert show.history.names() == ["q"]
    (tmp_path / "part-2.parquet").unlink()
    show.scan()
    show.refresh()
    assert (show.history.names(), show.history.bytes, dict(show.queries())) == ([], 0, {})


def test_the_workload_knows_which_of_two_it_asked_for(tmp_path):
    (tmp_path / "answers").mkdir()
    (tmp_path / "w.yaml").write_text(
        "streams: {trades: {path: in, format: parquet, time: ts}}\n"
        "queries: [{name: big, k: 3, size: 1 minute, slide: 10 seconds, by: price}]\n"
    )
    mine, other = replayed("big", 3, "1 minute"), replayed("big", 3, "30 seconds")
    write(mine, tmp_path / "answers" / "trades-00000001.parquet")
    write(other, tmp_path / "answers" / "old.parquet")
    show = FolderShow(tmp_path / "answers", sb.read_workload(tmp_path / "w.yaml"))
    show.scan()
    show.refresh()
    assert [one["name"] for one in state_of(show)["queries"]] == ["big", "big (old.parquet)"]
    assert query(show, "big")["text"] is not None
    assert on_the_page(show, "big") == windows(mine)
    assert on_the_page(show, "big (old.parquet)") == windows(other)


def test_groups_that_files_contradict_each_other_about(tmp_path):
    """Files of one source with other columns: what is thought must come to rest, or all is read for ever."""
    first = answers([("q", "a", 1, [(1, 3.0)]), ("q", "b", 1, [(1, 2.0)])], groups=True)
    second = answers([("q", "a", 2, [(1, 3.0)]), ("q", "b", 2, [(1, 2.0)])], groups=True)
    second = second.rename_columns({"symbol": "other"})
    show = FolderShow(tmp_path)
    write(first, tmp_path / "s-00000001.parquet")
    show.scan()
    write(second, tmp_path / "s-00000002.parquet")
    show.scan()
    assert not show._unsettled
    assert show.scan() == 0
    names = [one["name"] for one in state_of(show)["queries"]]
    assert names == ["q (s)", "q (s-00000002.parquet)"]
    assert [query(show, name)["groups"] for name in names] == [["symbol"], ["other"]]
    assert [board(show.history, name)["group"] for name in names] == [["a"], ["a"]]


def test_micro_batches_that_tasks_have_written(tmp_path):
    """Files in folders are of the same sink as files beside them, also if a repeated micro-batch replaces them."""
    found = replayed("q", 3, "30 seconds", partition_by=["symbol"])
    half, groups = found.num_rows // 2, found["group"].to_pylist()
    writer = FolderWriter(str(tmp_path), "s", "parquet", by_tasks=True)
    writer.take(0, found.slice(0, half))
    show = FolderShow(tmp_path)
    show.scan()
    for repeated in range(2):
        task, cut = writer.task_writer(), 1 + repeated
        parts = [
            found.slice(half).filter(pa.array([sum(map(ord, group)) % (cut + 1) == part for group in groups[half:]]))
            for part in range(cut + 1)
        ]
        writer.take_files(1, [task(part) for part in parts if part.num_rows], None)
        show.scan()
        show.refresh()
        assert [one["name"] for one in state_of(show)["queries"]] == ["q"]
        assert on_the_page(show, "q") == windows(found)


def test_growing_windows_are_one_query(tmp_path):
    """Windows of other lengths are other queries, unless the workload says that the lengths differ."""
    (tmp_path / "w.yaml").write_text(
        "streams: {trades: {path: none.parquet, format: parquet, time: ts}}\n"
        "queries: [{name: so far, k: 2, size: 2 minutes, slide: 30 seconds, cumulative: true, by: price}]\n"
    )
    file = sb.read_workload(tmp_path / "w.yaml")
    (asked,) = file.workloads["trades"]
    table = sb.replay(asked, TRADES.position, TRADES.score, TRADES.trade_id)
    folder = tmp_path / "answers"
    folder.mkdir()
    write(table, folder / "trades-00000001.parquet")
    show = shown(folder, file)
    assert [one["name"] for one in state_of(show)["queries"]] == ["so far"]
    assert on_the_page(show, "so far") == windows(table)
