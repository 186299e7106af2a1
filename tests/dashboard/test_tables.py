"""Answers in Delta and Iceberg tables: only the files of the newest version count, whatever else is in the folder."""

from __future__ import annotations

import json
import random
import shutil
import sys
import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skyband as sb
from skyband.cli.dashboard import _only_place
from skyband.connectors.table_snapshots import IcebergSnapshot, _current_metadata, snapshot_of
from skyband.dashboard.boards import moments
from skyband.dashboard.folder import FolderShow
from skyband.dashboard.history import History
from skyband.dashboard.read_views import window_table
from skyband.dashboard.wire import group_key
from skyband.errors import InvalidInputError, MissingDependencyError, UnsupportedError
from tests.dashboard.asking import served
from tests.dashboard.making import MINUTE, answers


class Delta:
    """A Delta table in a folder, written by another program."""

    def __init__(self, home):
        self.folder = home / "answers"

    def append(self, rows, mode="append"):
        from deltalake import write_deltalake

        write_deltalake(str(self.folder), rows, mode=mode)

    def overwrite(self, rows):
        self.append(rows, "overwrite")

    def delete(self, minute):
        from deltalake import DeltaTable

        DeltaTable(str(self.folder)).delete(
            f"window_end = arrow_cast({minute * MINUTE}, 'Timestamp(Microsecond, Some(\"UTC\"))')"
        )

    def compact(self):
        from deltalake import DeltaTable

        DeltaTable(str(self.folder)).optimize.compact()

    def snapshot(self):
        return snapshot_of(self.folder)

    def remove_old_files(self):
        from deltalake import DeltaTable

        DeltaTable(str(self.folder)).vacuum(0, dry_run=False, enforce_retention_duration=False)


class Iceberg:
    """An Iceberg table of a catalog in a file. Its folder is read with its metadata files only."""

    def __init__(self, home):
        from pyiceberg.catalog import load_catalog

        self.properties = {"uri": f"sqlite:///{home}/catalog.db", "warehouse": f"file://{home}"}
        self.catalog = load_catalog("default", **self.properties)
        self.catalog.create_namespace_if_not_exists("db")
        self.folder = home / "db" / "answers"

    def append(self, rows):
        if not self.catalog.table_exists("db.answers"):
            self.catalog.create_table("db.answers", rows.schema)
        self.table.append(rows)

    @property
    def table(self):
        return self.catalog.load_table("db.answers")

    def overwrite(self, rows):
        self.table.overwrite(rows)

    def delete(self, minute):
        from pyiceberg.expressions import EqualTo

        self.table.delete(EqualTo("window_end", f"1970-01-01T00:{minute:02}:00+00:00"))

    def compact(self):
        self.table.overwrite(self.table.scan().to_arrow())  # the same rows in other files

    def snapshot(self):
        return snapshot_of(self.folder)

    def remove_old_files(self):
        held = self.snapshot().files()
        for path in self.folder.rglob("*.parquet"):
            if path not in held:
                path.unlink()


class Catalog(Iceberg):
    """The same, read by its catalog, as `skyband serve FILE` does."""

    def snapshot(self):
        return IcebergSnapshot("db.answers", "default", self.properties)


KINDS = [Delta, Iceberg, Catalog]


def windows_of(minutes, score=9.0):
    """Rows of two groups for each minute."""
    windows = [
        ("q", symbol, minute, [(f"{symbol}{minute}-{place}", score - place) for place in range(3)])
        for minute in minutes
        for symbol in ("a", "b")
    ]
    return answers(windows, groups=True)


def shown(table, **limits):
    show = FolderShow(table.folder, history=History(**limits), table=table.snapshot())
    show.scan()
    show.refresh()
    return show


def held(show, group='["a"]'):
    """Every window that can be read: its minute, and its rows."""
    show.refresh()
    found = window_table(show.history, "q", group, (None, None), 1000)
    if found is None:
        return {}
    assert found.dropped == 0
    rows = found.rows
    ends = [end // MINUTE for end in rows["window_end"].cast(pa.int64()).to_pylist()]
    windows = {}
    for end, rank, id_, score in zip(ends, *(rows[name].to_pylist() for name in ("rank", "id", "score")), strict=True):
        windows.setdefault(end, []).append((rank, id_, score))
    return windows


def wanted(minutes, score=9.0):
    return {minute: [(place + 1, f"a{minute}-{place}", score - place) for place in range(3)] for minute in minutes}


@pytest.mark.parametrize("limits", [{}, pytest.param({"most_windows": 4}, marks=pytest.mark.long)])
@pytest.mark.parametrize("kind", KINDS)
def test_a_table_that_is_appended_merged_and_overwritten(tmp_path, kind, limits):
    table = kind(tmp_path)
    for minute in (1, 2):
        table.append(windows_of([minute]))
    pq.write_table(windows_of([40]), table.folder / "orphan.parquet")  # of a failed commit
    show = shown(table, **limits)
    assert held(show) == wanted([1, 2])
    table.append(windows_of([3, 4, 5]))
    show.scan()
    assert held(show) == wanted(range(1, 6))
    table.compact()
    assert held(show) == wanted(range(1, 6))  # of the version before, whose files are still there
    assert show.scan() > 0
    assert held(show) == wanted(range(1, 6))
    assert show.scan() == 0
    table.overwrite(windows_of([2, 3], score=5.0))
    show.scan()
    assert held(show) == wanted([2, 3], score=5.0)
    assert len(moments(show.history, "q", '["b"]')["moments"]) == 2
    table.remove_old_files()
    show.scan()
    assert held(show) == wanted([2, 3], score=5.0)


@pytest.mark.parametrize("kind", [Delta, pytest.param(Iceberg, marks=pytest.mark.long)])
def test_readers_see_a_version_as_a_whole(tmp_path, kind, monkeypatch):
    """While a merged table is read, readers still get every window once."""
    table, seen = kind(tmp_path), []
    for minute in range(1, 5):
        table.append(windows_of([minute]))
    show = shown(table)
    read = FolderShow._read

    def watched(self, path):
        seen.append(held(self))
        read(self, path)
        seen.append(held(self))

    monkeypatch.setattr(FolderShow, "_read", watched)
    table.compact()
    show.scan()
    table.append(windows_of([9]))
    show.scan()
    assert seen == [wanted(range(1, 5))] * 4
    assert held(show) == wanted([1, 2, 3, 4, 9])


@pytest.mark.long
@pytest.mark.parametrize("limits", [{}, {"most_windows": 4}])
@pytest.mark.parametrize("kind", KINDS)
def test_every_response_is_of_one_version(tmp_path, kind, limits):
    """A program changes the table at random; readers ask all the time."""
    dice, table = random.Random(5), kind(tmp_path)
    table.append(windows_of([1]))
    state, versions = {1: 9.0}, [{1: 9.0}]
    show, ended, found = shown(table, **limits), threading.Event(), []

    def change():
        for number in range(2, 30):
            what = dice.random()
            if what < 0.5 or not state:
                # A version is added before it can be seen, and after the one that can be seen until then.
                state[number] = 9.0
                versions.append(dict(state))
                table.append(windows_of([number]))
            elif what < 0.75:
                table.compact()
            elif what < 0.9:
                score = float(number)
                for minute in state:
                    state[minute] = score
                versions.append(dict(state))
                table.overwrite(windows_of(list(state), score=score))
            else:
                minute = dice.choice(list(state))
                del state[minute]
                versions.append(dict(state))
                table.delete(minute)
            show.scan()
        ended.set()

    changing = threading.Thread(target=change)
    changing.start()
    while not ended.is_set():
        show.refresh()
        known = show.history.find("q", '["a"]')
        if known is not None and known.window is not None:
            found.append([(row["rank"], row["id"], row["score"]) for row in known.window.rows.to_pylist()])
    changing.join()
    boards = [
        [(place + 1, f"a{minute}-{place}", score - place) for place in range(3)]
        for version in versions
        for minute, score in version.items()
    ]
    assert found
    assert all(one in boards for one in found)
    show.scan()
    assert held(show) == {
        minute: [(place + 1, f"a{minute}-{place}", score - place) for place in range(3)]
        for minute, score in sorted(state.items())
    }


def test_a_folder_of_a_table_is_recognized(tmp_path):
    delta, iceberg = Delta(tmp_path), Iceberg(tmp_path)
    for table in (delta, iceberg):
        table.append(windows_of([1]))
        assert {path.parent for path in table.snapshot().files()} in ({table.folder}, {table.folder / "data"})
        with served(shown(table)) as page:
            assert page.get("v1/windows", query="q", group='["a"]')["total"] == 1
    plain = tmp_path / "plain"
    (plain / "metadata").mkdir(parents=True)
    assert snapshot_of(plain) is None


def test_the_place_of_a_workload_file(tmp_path):
    iceberg = Iceberg(tmp_path)
    iceberg.append(windows_of([1]))

    def place(sinks):
        text = "streams: {s: {source: rate, rows_per_second: 1}}\n"
        text += "queries: [{name: q, k: 3, size: 1 minute, by: value}]\n"
        (tmp_path / "work.yaml").write_text(f"{text}sinks: [{sinks}]\n")
        return _only_place(sb.read_workload(tmp_path / "work.yaml"))

    assert place("{type: delta, path: 'x/{stream}'}") == (tmp_path / "x" / "s", None)
    assert place("{type: parquet, path: x}, {type: parquet, path: y, output: changes}") == (tmp_path / "x", None)
    by_catalog = "{type: iceberg, table: db.answers, catalog: 'sqlite:///catalog.db', warehouse: .}"
    folder, table = place(by_catalog)
    assert (folder, len(table.files())) == (iceberg.folder, 1)
    with pytest.raises(InvalidInputError, match="2 folders and tables"):
        place(f"{by_catalog}, {{type: delta, path: x}}")
    with pytest.raises(InvalidInputError, match=r"'db\.other' does not exist"):
        place(by_catalog.replace("db.answers", "db.other"))


@pytest.mark.parametrize(("kind", "package"), [(Delta, "deltalake"), (Iceberg, "pyiceberg"), (Catalog, "pyiceberg")])
def test_a_missing_package(tmp_path, monkeypatch, kind, package):
    table = kind(tmp_path)
    table.append(windows_of([1]))
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    extra = "delta" if package == "deltalake" else "iceberg"
    with pytest.raises(MissingDependencyError, match=rf"pip install 'skyband\[{extra}\]'"):
        FolderShow(table.folder, table=table.snapshot())


def test_tables_whose_files_have_other_rows(tmp_path):
    from deltalake import write_deltalake

    write_deltalake(str(tmp_path / "parts"), windows_of([1]), partition_by=["window_end"])
    with pytest.raises(UnsupportedError, match="uses partitions by window_end, which is not supported"):
        FolderShow(tmp_path / "parts")
    table = Delta(tmp_path)
    table.append(windows_of([1]))
    (log,) = (table.folder / "_delta_log").glob("*0.json")
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    features = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["deletionVectors"],
                "writerFeatures": ["deletionVectors"]}  # fmt: skip
    lines = [{"protocol": features} if "protocol" in line else line for line in lines]
    log.write_text("\n".join(json.dumps(line) for line in lines))
    with pytest.raises(UnsupportedError, match="deletionVectors"):
        FolderShow(table.folder)
    shutil.rmtree(table.folder / "_delta_log")
    (table.folder / "_delta_log").mkdir()
    with pytest.raises(InvalidInputError, match="cannot be read"):
        FolderShow(table.folder)


@pytest.mark.parametrize("by", [["symbol"], ["query", "symbol"]])
@pytest.mark.parametrize("limits", [{}, {"most_windows": 2}])
def test_a_partitioned_table(tmp_path, by, limits):
    """Values of partition columns are in the log, not in the files."""
    from deltalake import DeltaTable, write_deltalake

    table = Delta(tmp_path)
    for minute in range(1, 7):
        windows = [
            ("q", group, minute, [(f"{group[0]}{minute}-{place}", score - place) for place in range(3)])
            for group, score in (("a", 9.0), ("b b/ü", 8.5))
        ]
        rows = answers(windows, groups=True)
        write_deltalake(str(table.folder), rows, mode="append", partition_by=by)
    show = shown(table, **limits)
    assert show.queries()["q"].groups == ("symbol",)
    for group, id_ in (("a", "a"), ("b b/ü", "b")):
        found = held(show, group_key([group]))
        assert {end: [row[1] for row in rows] for end, rows in found.items()} == {
            minute: [f"{id_}{minute}-{place}" for place in range(3)] for minute in range(1, 7)
        }
    DeltaTable(str(table.folder)).optimize.compact()
    assert show.scan() > 0
    assert held(show) == wanted(range(1, 7))


def test_the_current_metadata_of_a_folder(tmp_path):
    def current(*names, hint=None):
        folder = tmp_path / "metadata"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for name in names:
            (folder / name).touch()
        if hint is not None:
            (folder / "version-hint.text").write_text(f"{hint}\n")
        return _current_metadata(Path(tmp_path)).name

    assert current("00000-a.metadata.json", "00010-b.metadata.json", "00009-c.metadata.json") == "00010-b.metadata.json"
    # A commit that failed has left a file of its own; the next commit has the same number.
    assert current("00001-a.metadata.json", "00002-b.metadata.json", "00002-c.metadata.json") == "00001-a.metadata.json"
    assert current("v1.metadata.json", "v2.metadata.json", "v3.metadata.json", hint=2) == "v2.metadata.json"
    assert current("v1.gz.metadata.json", "snap-12-1.avro") == "v1.gz.metadata.json"
    with pytest.raises(InvalidInputError, match="has no metadata file"):
        current("other.json")


def test_a_table_that_is_created_again(tmp_path):
    table = Delta(tmp_path)
    table.append(windows_of([1, 2]))
    show = shown(table)
    shutil.rmtree(table.folder)
    table.append(windows_of([7]))
    table.append(windows_of([8]))
    show.scan()
    assert held(show) == wanted([7, 8])
