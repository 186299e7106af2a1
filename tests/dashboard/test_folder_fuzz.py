"""A folder whose files change while they are read: mixed, half-written, replaced, removed; no reader ever fails."""

from __future__ import annotations

import logging
import random
import shutil
import threading

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from skyband.dashboard import boards, read_views
from skyband.dashboard.board_state import state_of
from skyband.dashboard.engine_view import EngineView, plan_of
from skyband.dashboard.folder import FolderShow
from skyband.dashboard.wire import packed
from tests.dashboard.making import answers

STEPS = 40


def table(rng):
    """Answers of some kind: of other queries, groups, columns and types of ids each time."""
    names = rng.sample(["a", "b", "c"], rng.randint(1, 3))
    windows = []
    for name in names:
        for minute in range(rng.randint(1, 4)):
            for group in rng.sample(["x", "y", "z"], rng.randint(1, 3)):
                ranked = [(rng.randint(0, 9), float(10 - place)) for place in range(rng.randint(0, 4))]
                windows.append((name, group, minute + rng.randint(0, 3), ranked))
    found = answers(windows, groups=rng.random() < 0.7, kind=rng.choice([pa.int64(), pa.float64()]))
    return rng.choice([
        lambda: found,
        lambda: found.drop_columns(["score"]),
        lambda: found.drop_columns(["query"]),
        lambda: found.drop_columns(["window_start"]),
        lambda: found.set_column(found.schema.get_field_index("id"), "id", found["id"].cast(pa.string())),
        lambda: found.append_column("final", pa.array([rng.random() < 0.5] * found.num_rows)),
        lambda: found.append_column("extra", pa.array([[1, None]] * found.num_rows)),
        lambda: found.set_column(found.schema.get_field_index("score"), "score", pa.nulls(found.num_rows)),
        lambda: pa.table({"other": [1, 2]}),
        lambda: found.set_column(found.schema.get_field_index("rank"), "rank", pa.nulls(found.num_rows, pa.int32())),
    ])()  # fmt: skip


def change(folder, rng):
    """Change the folder as careless writers do."""
    there = sorted(folder.rglob("*.parquet"))
    path = (
        folder
        / rng.choice(["", "s", "day=1"])
        / f"{rng.choice(['q-0000000', 'part-', 'file'])}{rng.randint(0, 3)}.parquet"
    )
    what = rng.choice(["write", "write", "write", "cut", "junk", "empty", "remove", "rename", "folder", "clear"])
    path.parent.mkdir(exist_ok=True)
    if what == "write":
        pq.write_table(table(rng), path)
    elif what == "junk":
        path.write_bytes(rng.randbytes(rng.randint(1, 400)))
    elif what == "empty":
        path.write_bytes(b"")
    elif what == "clear" and rng.random() < 0.3:
        shutil.rmtree(folder / "s", ignore_errors=True)
    elif there:
        one = rng.choice(there)
        if what == "cut":
            content = one.read_bytes()
            one.write_bytes(content[: rng.randint(0, len(content))])
        elif what == "remove":
            one.unlink()
        elif what == "rename":
            one.rename(path)


def read_everything(show):
    """What the page and the read API ask for; the JSON must be valid."""
    show.refresh()
    history = show.history
    packed(state_of(show))
    packed(boards.summaries(history, history.names()))
    for name in history.names():
        for key in (None, '["x"]', '["nobody"]'):
            packed([
                boards.board(history, name, key),
                boards.moments(history, name, key),
                boards.ranks_over_time(history, name, key, 50, "extra"),
                read_views.window_of(history, name, key),
                read_views.rank_of(history, name, key, None, "3", 2),
                read_views.ranks_of(history, name, key, "3", 9),
                history.groups(name, "x", 10),
            ])  # fmt: skip
            for window in (history.windows(name, key) or ([], 0))[0]:
                packed(boards.board(history, name, key, window.moment))
    for stream in {one.stream for one in show.queries().values()}:
        packed(plan_of(show, stream))


@pytest.mark.parametrize("seed", range(12))
def test_files_that_change_while_they_are_read(tmp_path, seed, caplog):
    caplog.set_level(logging.CRITICAL)
    rng = random.Random(seed)
    show = FolderShow(tmp_path)
    engine = EngineView(show)
    failed = []
    closed = threading.Event()

    def read():
        while not closed.is_set():
            try:
                read_everything(show)
            except Exception as error:
                failed.append(error)
                return

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for _ in range(STEPS):
            change(tmp_path, rng)
            show.scan()
            engine.look()
            packed(engine.with_trail())
    finally:
        closed.set()
        reader.join()
    if failed:
        raise failed[0]
    read_everything(show)
    for path in tmp_path.rglob("*.parquet"):
        path.unlink()
    show.scan()
    assert show.history.names() == []
    pq.write_table(answers([("a", None, 1, [(5, 2.0), (6, 1.0)])]), tmp_path / "new.parquet")
    show.scan()
    assert [row["id"] for row in boards.board(show.history, "a")["rows"]] == [5, 6]
