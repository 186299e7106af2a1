"""Looking at data: columns, kinds, the time and how it is written, for all three formats."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime

import pytest

import skyband as sb
from skyband.workload_file import sample_of
from skyband.workload_file.time_columns import Clock, clock_of, moment
from tests.workload_file.test_starter import CSVS


@pytest.mark.parametrize(
    ("name", "time", "pattern"),
    [
        ("iso", "ts", "yyyy-MM-dd'T'HH:mm:ss[.SSSSSSSSS]XXX"),
        ("minutes", "when", "yyyy-MM-dd HH:mm"),
        ("dates", "date", "yyyy-MM-dd"),
        ("epoch", "epoch", "seconds"),
        ("milliseconds", "event_time", "milliseconds"),
        ("microseconds", "ts", "microseconds"),
        ("odd names", "time stamp", "yyyy-MM-dd HH:mm:ss"),
        ("slashes", "ts", "yyyy/MM/dd HH:mm:ss"),
        ("letters of the world", "😀 ts", "yyyy-MM-dd HH:mm:ss"),
    ],
)
def test_the_time_and_how_it_is_written(tmp_path, name, time, pattern):
    (tmp_path / "x.csv").write_text(CSVS[name], encoding="utf-8")
    found = sample_of(tmp_path / "x.csv")
    assert (found.time, found.time_format) == (time, pattern)
    assert found.first.year == 2024


@pytest.mark.parametrize(
    ("texts", "pattern"),
    [
        (["2024-01-01 09:30", "2024-01-01 09:30:10"], "yyyy-MM-dd HH:mm[:ss]"),
        (["2024-01-01", "2024-01-01 09:30"], "yyyy-MM-dd[ HH:mm]"),
        (["2024-01-01 09:30Z", "2024-01-01T09:30+01:00"], "yyyy-MM-dd[ ]['T']HH:mmXXX"),
        (["2024-01-01 09:30+0100", "2024-01-01 09:30"], "yyyy-MM-dd HH:mm[XX]"),
        (["2024-01-01 09:30+0100", "2024-01-01 09:30Z"], "yyyy-MM-dd HH:mm[XXX][XX]"),
        (["2024-01-01 09:30:00.5", "2024-01-01 09:30:00"], "yyyy-MM-dd HH:mm:ss[.SSSSSSSSS]"),
    ],
)
def test_parts_that_only_some_have(texts, pattern):
    assert clock_of("ts", "text", texts) == Clock(pattern)
    assert all(moment(text, Clock(pattern)) is not None for text in texts)


def test_columns_and_distinct_values(tmp_path):
    (tmp_path / "x.csv").write_text(
        "ts,id,name,ok,x\n2024-01-01 09:30:00,1,a,true,1.5\n2024-01-01 09:31:00,2,a,false,2\n"
    )
    found = sample_of(tmp_path / "x.csv")
    kinds = ["text", "integer", "text", "boolean", "number"]
    assert found.columns == list(zip(["ts", "id", "name", "ok", "x"], kinds, strict=True))
    assert (dict(found.distinct), found.rows, found.format) == ({"id": 2, "name": 1}, 2, "csv")
    assert (found.first, found.last) == (
        datetime(2024, 1, 1, 9, 30, tzinfo=UTC),
        datetime(2024, 1, 1, 9, 31, tzinfo=UTC),
    )


def test_another_separator_is_an_option(tmp_path):
    (tmp_path / "x.csv").write_text(CSVS["semicolons"])
    assert sample_of(tmp_path / "x.csv").options == {"sep": ";"}


def test_the_end_of_a_large_file_is_seen_too(tmp_path):
    rows = (f"{1_704_067_200 + second},{'x' * 30}\n" for second in range(100_000))
    (tmp_path / "x.csv").write_text("ts,note\n" + "".join(rows))
    found = sample_of(tmp_path / "x.csv")
    assert found.rows < 100_000
    assert (found.last - found.first).total_seconds() == 99_999


@pytest.mark.parametrize("packed", [False, True])
def test_json_lines(tmp_path, packed):
    rows = [{"at": "2024-01-01T09:30:00.123Z", "v": 1, "tags": ["a"]}, {"at": "2024-01-01T09:40:00Z", "v": 2.5}]
    text = "".join(json.dumps(row) + "\n" for row in rows).encode()
    file = tmp_path / ("x.jsonl.gz" if packed else "x.jsonl")
    file.write_bytes(gzip.compress(text) if packed else text)
    found = sample_of(file)
    assert (found.format, found.time, found.time_format) == ("json", "at", "yyyy-MM-dd'T'HH:mm:ss[.SSSSSSSSS]XXX")
    assert ("v", "number") in found.columns
    assert found.last == datetime(2024, 1, 1, 9, 40, tzinfo=UTC)


def test_parquet_and_folders(tmp_path):
    import pyarrow as pa
    from pyarrow import parquet

    folder = tmp_path / "trades"
    folder.mkdir()
    (folder / "_SUCCESS").touch()
    (folder / ".x.parquet.crc").touch()
    for day in (1, 2):
        times = pa.array([datetime(2024, 1, day, 9), datetime(2024, 1, day, 17)], pa.timestamp("us"))
        parquet.write_table(pa.table({"ts": times, "price": [1.0, 2.0]}), folder / f"{day}.parquet")
    found = sample_of(folder)
    assert (found.path, found.format, found.time, found.time_format) == (str(folder), "parquet", "ts", None)
    assert (found.first.day, found.last.day) == (1, 2)


def test_a_named_time_is_taken_before_another(tmp_path):
    (tmp_path / "x.csv").write_text("birthday,ts,x\n2000-01-01,2024-01-01 09:30:00,1\n")
    assert sample_of(tmp_path / "x.csv").time == "ts"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.csv", "price,size\n1,2\n", r"has no time column.*Columns: price \(integer\), size \(integer\)"),
        ("x.csv", "ts,size\nsoon,2\n", r"has no time column.*ts \(text\)"),
        ("x.csv", "ts,x\n", "has no rows"),
        ("x.csv", "", "cannot be read as csv"),
        ("x.jsonl", "", "has no rows"),
        ("x.jsonl", "[1]\n", "is not a JSON object"),
        ("x.jsonl", "{\n", "cannot be read as json"),
        ("x.parquet", "PAR", "cannot be read as parquet"),
        ("x.txt", "a", "has no known file extension"),
    ],
)
def test_what_cannot_be_used(tmp_path, name, content, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(sb.InvalidInputError, match=message):
        sample_of(tmp_path / name)


def test_nothing_there(tmp_path):
    with pytest.raises(sb.InvalidInputError, match="does not exist"):
        sample_of(tmp_path / "x.csv")
    with pytest.raises(sb.InvalidInputError, match="no csv, json, jsonl, parquet or avro"):
        sample_of(tmp_path)


def behind_of(path):
    found = sample_of(path)
    return found.behind.total_seconds(), found.looked_at


class TestOrder:
    """How far rows come behind the newest before them, wherever in the data that is."""

    def test_in_the_middle_of_a_large_file(self, tmp_path):
        times = [1_704_067_200 + second for second in range(200_000)]
        for number in range(0, len(times), 1000):
            times[number] -= 300
        (tmp_path / "x.csv").write_text("ts,note\n" + "".join(f"{at},{'x' * 50}\n" for at in times))
        behind, looked_at = behind_of(tmp_path / "x.csv")
        assert behind == 299  # the row before it is a second older than it should be
        assert "from parts of the file" in looked_at

    def test_at_the_end_of_a_large_file(self, tmp_path):
        times = [*(1_704_067_200 + second for second in range(200_000)), 1_704_067_200]
        (tmp_path / "x.csv").write_text("ts,note\n" + "".join(f"{at},{'x' * 50}\n" for at in times))
        assert behind_of(tmp_path / "x.csv")[0] == 199_999

    def test_parquet_by_its_row_groups(self, tmp_path):
        import pyarrow as pa
        from pyarrow import parquet

        times = [datetime(2024, 1, 1, 9, minute) for minute in range(60)]
        times[45] = datetime(2024, 1, 1, 8)
        table = pa.table({"ts": pa.array(times, pa.timestamp("us")), "x": range(60)})
        parquet.write_table(table, tmp_path / "x.parquet", row_group_size=1)
        assert behind_of(tmp_path / "x.parquet")[0] == (60 + 44) * 60
        parquet.write_table(table, tmp_path / "x.parquet")
        assert behind_of(tmp_path / "x.parquet") == (104 * 60, "all 60 rows")

    def test_of_many_files_some_are_looked_at(self, tmp_path):
        for number in range(90):
            (tmp_path / f"{number:02}.csv").write_text(f"ts,x\n{1_704_067_200 + number},1\n")
        behind, looked_at = behind_of(tmp_path)
        assert (behind, looked_at) == (0, "40 rows from parts of 40 of the 90 files, ordered by modification time")

    def test_a_time_that_the_folders_tell(self, tmp_path):
        for day in (1, 2):
            (tmp_path / f"date=2024-01-0{day}").mkdir()
            (tmp_path / f"date=2024-01-0{day}" / "x.csv").write_text("a,x\n1,2\n")
        found = sample_of(tmp_path)
        assert (found.time, found.time_format, found.columns[-1]) == ("date", "yyyy-MM-dd", ("date", "date"))
        assert (found.last - found.first).days == 1
