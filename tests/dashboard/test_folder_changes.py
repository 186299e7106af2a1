"""A folder that changes while browsers read it: nothing that happens to files stops the page, or mixes two queries."""

from __future__ import annotations

import os
import random
import threading
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skyband as sb
from skyband import streams
from skyband.dashboard.boards import board, moments, ranks_over_time, summaries
from skyband.dashboard.folder import FolderShow
from skyband.dashboard.history import History
from tests.dashboard.asking import served
from tests.dashboard.making import MINUTE, answers, grouped, history
from tests.dashboard.test_folder import shown, write

TRADES = streams.trades(3_000, seed=5)
CLIENTS, STEPS = 4, 60


def replayed(k, size, *, name="big", by_symbol=False):
    query = sb.TopK(name=name, k=k, size=size, slide="10 seconds", **({"partition_by": "symbol"} if by_symbol else {}))
    return sb.replay(query, TRADES.position, TRADES.score, TRADES.trade_id, groups=TRADES.symbol if by_symbol else None)


TABLES = [
    replayed(3, "1 minute"),
    replayed(5, "1 minute"),
    replayed(2, "30 seconds"),
    replayed(2, "30 seconds", by_symbol=True),
    replayed(4, "20 seconds", name="other", by_symbol=True),
]
WINDOWS = {
    tuple((row["rank"], row["id"], row["score"]) for row in rows)
    for table in TABLES
    for rows in (
        table.filter(mask).to_pylist()
        for mask in (
            pa.compute.and_(
                pa.compute.equal(table["window_end"], end),
                pa.compute.equal(table["group"], group) if "group" in table.column_names else True,
            )
            for end in table["window_end"].unique()
            for group in (table["group"].unique() if "group" in table.column_names else [None])
        )
    )
    if rows
}


def overwrite(table, path):
    """Not as a sink does: in place, so that others can meet half of it."""
    content = pa.BufferOutputStream()
    pq.write_table(table, content)
    content = content.getvalue().to_pybytes()
    with path.open("wb") as file:
        file.write(content[: len(content) // 2])
        file.flush()
        file.write(content[len(content) // 2 :])


def mischief(folder, random_):
    """Do one thing to some file of the folder."""
    places = ["a", "b", "s-00000001", "s-00000002", "part-0", "part-1", "deep/x", "deep/s-00000001"]
    path = folder / f"{random_.choice(places)}.parquet"
    path.parent.mkdir(exist_ok=True)
    match random_.randrange(9):
        case 0 | 1 | 2:
            write(random_.choice(TABLES), path)
        case 3:
            overwrite(random_.choice(TABLES), path)
        case 4:
            path.unlink(missing_ok=True)
        case 5 if path.exists():
            os.truncate(path, random_.randrange(path.stat().st_size + 1))
        case 6:
            path.write_bytes(random_.choice([b"", b"PAR1", b"PAR1" + random_.randbytes(200) + b"PAR1"]))
        case 7:
            write(random_.choice([pa.table({"rank": ["x"], "time": ["y"]}), pa.table({"a": [1]})]), path)
        case 8 if path.exists():
            path.rename(path.with_name(f"{random_.choice('cd')}.parquet"))


def ask(page, problems, stop):
    """What a browser asks for, again and again; every window it is shown must be one of some file."""
    while not stop.is_set():
        status, state = page.status("state")
        names = [one["name"] for one in state["queries"]] if status == 200 else []
        found = [(status, state), page.status("summaries"), page.status("engine")]
        for name in names:
            for path in ("board", "moments", "history", "groups"):
                status, content = page.status(path, query=name)
                found.append((status, content))
                if path == "board" and status == 200:
                    rows = tuple((row["rank"], row["id"], row["score"]) for row in content["rows"])
                    if rows not in WINDOWS:
                        problems.append((name, rows))
        problems += [one for one in found if one[0] not in (200, 404)]


@pytest.mark.parametrize("seed", range(3))
def test_a_folder_that_changes_while_browsers_read_it(tmp_path, seed, caplog):
    random_ = random.Random(seed)
    problems: list = []
    stop = threading.Event()
    with FolderShow(tmp_path, history=History(most_bytes=400_000)) as show, served(show) as page:
        readers = [threading.Thread(target=ask, args=(page, problems, stop)) for _ in range(CLIENTS)]
        for reader in readers:
            reader.start()
        for _ in range(STEPS):
            mischief(tmp_path, random_)
            show.scan()
        for path in tmp_path.rglob("*.parquet"):
            path.unlink()
        write(TABLES[0], tmp_path / "last.parquet")
        stop.set()
        for reader in readers:
            reader.join()
        show.scan()
        assert problems == []
        assert [one["name"] for one in page.get("state")["queries"]] == ["big"]
        assert page.get("board", query="big")["rows"][0]["rank"] == 1
        assert page.raw("GET", "/healthz")[0] == 200
    assert not any(record.exc_info for record in caplog.records)


def test_all_groups_of_a_query_go_at_once():
    """Lines that are empty must go before another leader is looked for among them."""
    store = history(grouped("g"), "q")
    store.put("f", "s", answers([("g", symbol, 1, [(1, 1.0)]) for symbol in "abc"], groups=True))
    store.put("other", "s", answers([("q", None, 1, [(1, 1.0)])]))
    store.settle()
    store.put("f", "s", None)
    store.settle()
    assert list(summaries(store, ["g", "q"])) == ["q"]
    assert board(store, "g") is None


@pytest.mark.parametrize("seed", range(8))
def test_a_history_that_is_put_and_replaced_at_random(seed):
    """Against a model: the windows of each query are those of the keys that are there, and nothing else is held."""
    random_ = random.Random(seed)
    store, there = history("a", "b", grouped("g")), {}
    for _ in range(120):
        key = random_.randrange(6)
        windows = [
            (name, random_.choice("xy") if name == "g" else None, 10 * key + minute, [(key, 1.0), (minute, 0.5)])
            for name in ("a", "b", "g")
            for minute in range(3)
            if random_.random() < 0.6
        ]
        windows = windows if random_.random() < 0.7 else []
        there[key] = windows
        store.put(key, "s", answers(windows, groups=True) if windows or random_.random() < 0.5 else None)
        if random_.random() < 0.7:
            store.settle()
    store.settle()
    for name in ("a", "b", "g"):
        wanted = sorted((window[2], window[1]) for found in there.values() for window in found if window[0] == name)
        lines = store._store.queries[name].lines.values() if name in store.names() else ()
        kept = [(window.moment // MINUTE, (line.group or [None])[0]) for line in lines for window in line.windows]
        assert sorted(kept) == wanted
    for key in there:
        store.put(key, "s", None)
    store.settle()
    assert (store.names(), store.bytes, store._store._segments) == ([], 0, {})


def test_rows_stay_their_windows_while_the_oldest_are_moved():
    """A reader has a window in hand while another thread makes room: it must not meet other rows under its bounds."""
    store = history("seldom", "q", most_bytes=30_000)
    store.put(0, "s", answers([("q", None, 1, [(5, 1.0)] * 50), ("seldom", None, 1, [(7, 3.0), (8, 2.0)])]))
    store.settle()
    window = store.find("seldom").window
    whole = window.segment
    for minute in range(2, 100):
        store.put(minute, "s", answers([("q", None, minute, [(minute, 1.0)] * 50)]))
        store.settle()
        assert window.segment is whole  # what a reader has in hand is never changed under it
        assert window.rows["id"].to_pylist() == store.find("seldom").window.rows["id"].to_pylist() == [7, 8]
    assert store.find("seldom").window.segment.rows.num_rows <= 52  # its two rows, and a sample of the others


def test_answers_that_cannot_be_cut_hold_up_no_others():
    store = history("q")
    store.put("bad", "s", pa.table({"query": ["q"], "rank": [1], "window_end": ["no time"]}))
    store.put("good", "s", answers([("q", None, 1, [(1, 1.0)])]))
    store.settle()
    assert board(store, "q")["rows"][0]["id"] == 1
    store.put("bad", "s", None)
    store.put("good", "s", None)
    store.settle()
    assert store.bytes == 0


@pytest.mark.parametrize(
    "values",
    [
        pa.nulls(2),
        pa.array([True, None]),
        pa.array([1.5, float("nan")]),
        pa.array([2**63, 1], pa.uint64()),
        pa.array([Decimal("1.5"), None]),
        pa.array([b"\xff\x00", b""]),
        pa.array([[1], None]),
        pa.array([{"a": 1}, None]),
        pa.array(["x", "y"]).dictionary_encode(),
        pa.array([datetime(2024, 1, 1, tzinfo=UTC), None]),
        pa.array([2**62, -(2**62)], pa.timestamp("us")),
        pa.array([1, 2**62], pa.timestamp("ns", "Europe/Berlin")),
        pa.array([date(2024, 1, 1), None]),
        pa.array([time(1, 2), None]),
        pa.array([timedelta(1), None]),
        pa.array([2**31 - 1, 0], pa.date32()),
    ],
    ids=lambda values: str(values.type),
)
@pytest.mark.parametrize("column", ["id", "note", "score", "symbol", "window_start", "window_end", "query", "rank"])
def test_a_column_of_any_type(tmp_path, column, values):
    rows = answers([("q", "a", 1, [(1, 2.0), (2, 1.0)]), ("q", "a", 2, [(1, 2.0), (2, 1.0)])], groups=True)
    twice = pa.chunked_array([values, values])
    named = rows.append_column("note", twice) if column == "note" else None
    named = named or rows.set_column(rows.column_names.index(column), column, twice)
    try:
        pq.write_table(named, tmp_path / "odd.parquet")
    except (pa.ArrowException, OSError):
        pytest.skip("cannot be written")
    write(answers([("good", None, 1, [(1, 1.0)])]), tmp_path / "x.parquet")
    show = shown(tmp_path)
    assert "good" in show.queries()
    with served(show) as page:
        for name in [one["name"] for one in page.get("state")["queries"]]:
            for path in ("board", "moments", "history", "groups"):
                assert page.status(path, query=name)[0] in (200, 404)
        assert page.status("summaries")[0] == 200
    for name in show.queries():
        assert moments(show.history, name, None)["moments"] is not None
        assert ranks_over_time(show.history, name, None, 5) is not None
        assert board(show.history, name)["rows"]


def test_what_is_no_file(tmp_path):
    """Whoever opens a pipe waits for its writer, and folders may be called like files."""
    os.mkfifo(tmp_path / "pipe.parquet")
    (tmp_path / "folder.parquet").mkdir()
    (tmp_path / "loop.parquet").symlink_to(tmp_path / "loop.parquet")
    write(answers([("q", None, 1, [(1, 1.0)])]), tmp_path / "folder.parquet" / "x.parquet")
    show = shown(tmp_path)
    assert list(show.queries()) == ["q"]
    assert show.scan() == 0


def test_a_file_that_turns_into_garbage_is_shown_no_longer(tmp_path):
    write(answers([("q", None, 1, [(1, 1.0)])]), tmp_path / "x.parquet")
    show = shown(tmp_path)
    (tmp_path / "x.parquet").write_bytes(b"PAR1 and no more")
    show.scan()
    show.refresh()
    assert (show.history.names(), dict(show.queries())) == ([], {})
    write(answers([("other", None, 1, [(1, 1.0)])]), tmp_path / "x.parquet")
    show.scan()
    show.refresh()
    assert list(show.queries()) == ["other"]


def test_a_file_that_cannot_be_opened_now_is_tried_again(tmp_path, monkeypatch):
    write(answers([("q", None, 1, [(1, 1.0)])]), tmp_path / "x.parquet")
    show = FolderShow(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr("skyband.dashboard.folder.read_answers", _no_descriptor)
        show.scan()
    assert not show.queries()
    show.scan()
    assert list(show.queries()) == ["q"]


def _no_descriptor(*_, **__):
    raise OSError(24, "Too many open files")
