"""Parts of files: together they have every row once, wherever files are cut."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from skyband.connectors.arrow import batches
from skyband.connectors.arrow.batches import line_blocks
from skyband.connectors.arrow.rows import LocalRows, open_files
from skyband.connectors.arrow.splits import Split, balanced, splits_of
from skyband.connectors.files import FilesSource

LINES = [b"a,b\n", b"\n", b"1,x\n", b"22,yy\n", b"333,zzz\n", b"4,\n"]


@pytest.mark.parametrize("tail", [b"", b"5,last"])
@pytest.mark.parametrize("block", [1, 3, 1000])
def test_lines_belong_to_the_split_in_which_they_begin(tmp_path, monkeypatch, tail, block):
    monkeypatch.setattr(batches, "_BLOCK", block)
    path, text = tmp_path / "a.csv", b"".join(LINES) + tail
    path.write_bytes(text + b"written later\n")
    size = len(text)
    for cut in range(size + 1):
        parts = [(0, cut), (cut, size)]
        found = [b"".join(line_blocks(Split(path, low, high, 0, size))) for low, high in parts if low < high]
        assert b"".join(found) == text, cut
        begins = [at for at in range(size) if at == 0 or text[at - 1 : at] == b"\n"]
        for (low, high), part in zip([one for one in parts if one[0] < one[1]], found, strict=True):
            wanted = sum(low <= begin < high for begin in begins)
            assert len(part.splitlines()) == wanted


def test_a_packed_file_is_one_split(tmp_path):
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"".join(LINES)))
    (split,) = splits_of("csv", [(path, 100 << 20)], 4)
    assert b"".join(line_blocks(split)) == b"".join(LINES)


def test_small_files_are_not_cut_and_empty_ones_are_not_read():
    files = [(Path(f"{number}.json"), size) for number, size in enumerate((10, 0, 20))]
    assert [split.file.name for split in splits_of("json", files, 8)] == ["0.json", "2.json"]


def test_tasks_have_equal_shares():
    some = [Split(Path(str(number)), size=size) for number, size in enumerate((500, 100, 100, 100, 100, 100))]
    parts = balanced(some, 2)
    assert [[split.file.name for split in part] for part in parts] == [["0"], ["1", "2", "3", "4", "5"]]
    assert balanced([], 2) == []
    assert len(balanced(some, 100)) == 6


def parquet(tmp_path, **columns):
    path = tmp_path / "a.parquet"
    table = pa.table({"ts": pa.array(range(10), pa.timestamp("us", "UTC")), **columns})
    pq.write_table(table, path, row_group_size=3)
    stream = FilesSource(path=str(path), format="parquet", time="ts").settled(tmp_path)
    return path, stream, LocalRows("s", stream, open_files("s", stream, [path]))


def test_row_groups(tmp_path):
    path, _, rows = parquet(tmp_path, n=pa.array(range(10)))
    found = splits_of("parquet", [(path, 100 << 20)], 2)
    assert len(found) == 4
    read = [[batch.rows["n"].to_pylist() for batch in rows.read([split])] for split in found]
    assert read == [[[0, 1, 2]], [[3, 4, 5]], [[6, 7, 8]], [[9]]]
    assert splits_of("parquet", [(tmp_path / "none.parquet", 100 << 20)], 2)[0].end is None


def test_only_needed_columns_are_read(tmp_path):
    _, stream, _ = parquet(tmp_path, n=pa.array(range(10)), m=pa.array(range(10)), unused=pa.array(["x"] * 10))
    stream = stream.model_copy(update={"columns": {"twice": "n * 2", "other": "m + 1"}})
    rows = LocalRows("s", stream, open_files("s", stream, [Path(stream.path)]))
    narrow = rows.narrow({"ts", "twice"}, (), ())
    (first, *_) = narrow.read([Split(Path(stream.path))])
    assert first.rows.column_names == ["ts", "n", "twice"]
    assert first.rows["twice"].to_pylist() == [0, 2, 4]


def test_texts_come_as_dictionaries_where_the_file_has_them(tmp_path):
    _, stream, rows = parquet(tmp_path, g=pa.array(["left", "right"] * 5), h=pa.array([f"{n}" * 99 for n in range(10)]))
    narrow = rows.narrow({"ts", "g", "h"}, (), {"g", "h"})
    kinds = {batch.rows.schema.field("h").type for batch in narrow.read([Split(Path(stream.path))])}
    assert kinds == {pa.string()}, "hardly a text is repeated"
    read = [batch.rows["g"] for batch in narrow.read([Split(Path(stream.path))])]
    assert [value for chunk in read for value in chunk.to_pylist()] == ["left", "right"] * 5


def test_a_wrong_text_in_a_dictionary_is_malformed(tmp_path):
    path = tmp_path / "a.parquet"
    texts = pa.array([b"good", b"bad\xff"] * 500).dictionary_encode()
    plain = pa.DictionaryArray.from_arrays(texts.indices, texts.dictionary.view(pa.string()))
    pq.write_table(pa.table({"ts": pa.array(range(1000), pa.timestamp("us", "UTC")), "g": plain}), path)
    stream = FilesSource(path=str(path), format="parquet", time="ts").settled(tmp_path)
    rows = LocalRows("s", stream, open_files("s", stream, [path])).narrow({"ts", "g"}, (), {"g"})
    (batch,) = rows.read([Split(path)])
    assert (batch.read, batch.rows.num_rows, batch.malformed.num_rows) == (1000, 500, 500)
    assert set(batch.rows["g"].to_pylist()) == {"good"}
