"""`skyband explain` holds a file against its data: names that are no columns, and paths without data, are told."""

from __future__ import annotations

import json

import pytest

import skyband as sb
from skyband.cli.explain import explain_file

ROWS = "ts,symbol,Price,shares\n2024-01-01 09:30:00,A,9.5,3\n"
LISTED = "its columns are ts, symbol, Price, shares."
FILE = """
streams:
  trades:
    path: trades.csv
    time: ts
queries:
  - name: best
    k: 3
    size: 1 hour
    by: price * shares
"""


@pytest.fixture
def explained(tmp_path):
    """Explains a text as a workload file, beside a file of trades."""
    (tmp_path / "trades.csv").write_text(ROWS)

    def explaining(text, as_json=False):
        (tmp_path / "work.yaml").write_text(text)
        return explain_file(tmp_path / "work.yaml", as_json=as_json)

    return explaining


@pytest.fixture
def problems(explained):
    def finding(text):
        with pytest.raises(sb.WorkloadFileError) as caught:
            explained(text)
        return [(problem.line, problem.key, problem.message) for problem in caught.value.problems]

    return finding


def changed(old, new):
    assert old in FILE
    return FILE.replace(old, new)


WRONG = {
    "a score": (
        changed("price * shares", "prise * shares"),
        (10, "queries[0].by", "'prise' in 'prise * shares' is not a column of stream 'trades'; did you mean 'Price'?"),
    ),
    "a time": (
        changed("time: ts", "time: when"),
        (5, "streams.trades.time", f"'when' is not a column of stream 'trades'; {LISTED}"),
    ),
    "an id": (
        changed("time: ts", "time: ts\n    id: trade_id"),
        (6, "streams.trades.id", f"'trade_id' is not a column of stream 'trades'; {LISTED}"),
    ),
    "a filter": (
        FILE + "    where: simbol > ''\n",
        (
            11,
            "queries[0].where",
            "'simbol' in \"simbol > ''\" is not a column of stream 'trades'; did you mean 'symbol'?",
        ),
    ),
    "a group": (
        FILE + "    partition_by: [symbol, shop]\n",
        (11, "queries[0].partition_by", f"'shop' is not a column of stream 'trades'; {LISTED}"),
    ),
    "SQL": (
        changed("k: 3\n    size: 1 hour\n    by: price * shares", "sql: TOPK pryce, 3 OVER 1 HOUR"),
        (8, "queries[0].sql", "'pryce' is not a column of stream 'trades'; did you mean 'Price'?"),
    ),
    "a computed column": (
        changed("time: ts", "columns: {t: cares}\n    time: ts"),
        (5, "streams.trades.columns.t", "'cares' is not a column of stream 'trades'; did you mean 'shares'?"),
    ),
    "a given schema": (
        changed("time: ts", "schema: {ts: timestamp, prise: double, shares: int}\n    time: ts"),
        (11, "queries[0].by", "'price' in 'price * shares' is not a column of stream 'trades'; did you mean 'prise'?"),
    ),
    "another type": (
        changed("by: price * shares", "type: aggregate\n    key: simbol\n    value: shares"),
        (11, "queries[0].key", "'simbol' is not a column of stream 'trades'; did you mean 'symbol'?"),
    ),
    "rows that Spark makes up": (
        changed("path: trades.csv\n    time: ts", "source: rate").replace("price * shares", "score"),
        (9, "queries[0].by", "'score' is not a column of stream 'trades'; its columns are timestamp, value."),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_name_that_is_no_column(problems, name):
    text, wanted = WRONG[name]
    assert problems(text) == [wanted]


def test_all_are_told_at_once(problems):
    text = changed("time: ts", "time: tss").replace("price * shares", "prise")
    assert [key for _, key, _ in problems(text)] == ["streams.trades.time", "queries[0].by"]


FINE = {
    "as it is": FILE,
    "other capitals": changed("time: ts", "time: TS").replace("price * shares", "PRICE * `Shares`"),
    "computed": changed("time: ts", "columns: {total: price * shares, more: total + 1}\n    time: ts").replace(
        "by: price * shares", "by: more"
    ),
    "a lambda": changed("by: price * shares", "by: aggregate(array(price), 0D, (acc, x) -> acc + x)"),
    "where the file is from": changed("by: price * shares", "by: price\n    partition_by: _metadata.file_name"),
    "no header": changed("time: ts", "options: {header: false}\n    time: _c0").replace("price * shares", "_c2"),
    "another encoding": changed("time: ts", "options: {encoding: UTF-16}\n    time: any").replace("price", "thing"),
    "elsewhere": changed("trades.csv", "s3a://bucket/trades.csv").replace("price", "thing"),
}


@pytest.mark.parametrize("name", FINE)
def test_what_spark_takes_is_not_refused(explained, name):
    assert "best: TOPK" in explained(FINE[name])


def test_columns_of_other_files(explained, problems, tmp_path):
    import pyarrow as pa
    from pyarrow import parquet

    parquet.write_table(pa.table({"ts": [1], "point": [{"x": 1.0}], "price": [1.0]}), tmp_path / "x.parquet")
    (tmp_path / "x.jsonl").write_text('{"ts": "2024-01-01", "price": 1}\n{"ts": "2024-01-01", "point": {"x": 2}}\n')
    for name in ("x.parquet", "x.jsonl"):
        text = changed("trades.csv", name)
        explained(text.replace("price * shares", "price + point.x"))
        assert problems(text.replace("price * shares", "pint.x"))[0][2].endswith("did you mean 'point'?")


def test_columns_that_folders_tell(explained, problems, tmp_path):
    for day in (1, 2):
        (tmp_path / "days" / f"day={day}").mkdir(parents=True)
        (tmp_path / "days" / f"day={day}" / "x.csv").write_text(ROWS)
    text = changed("path: trades.csv", "path: days\n    format: csv")
    explained(text.replace("price * shares", "price + day"))
    assert "did you mean 'day'?" in problems(text.replace("price * shares", "dai"))[0][2]


def test_rows_that_were_not_all_seen(explained, tmp_path):
    (tmp_path / "x.jsonl").write_text('{"ts": "2024-01-01", "price": 1}\n' * 10_000 + '{"rare": 1}\n')
    text = changed("trades.csv", "x.jsonl").replace("price * shares", "rare")
    assert "warning: " in explained(text)
    (warning,) = json.loads(explained(text, as_json=True))["warnings"]
    assert (warning["line"], warning["key"]) == (10, "queries[0].by")
    assert "'rare' is not a column of the first rows of stream 'trades'" in warning["message"]


class TestPaths:
    def test_a_file_that_is_not_there(self, problems):
        ((line, key, message),) = problems(changed("trades.csv", "tradse.csv"))
        assert (line, key) == (4, "streams.trades.path")
        assert "tradse.csv' does not exist" in message
        assert message.endswith("did you mean 'trades.csv'?")

    def test_a_folder_that_is_not_there(self, problems):
        ((*_, message),) = problems(changed("trades.csv", "nowhere/*/x.csv").replace("/*/", "/"))
        assert "does not exist either" in message

    @pytest.mark.parametrize("path", ["empty", "*.tsv"])
    def test_one_that_may_fill(self, explained, problems, tmp_path, path):
        (tmp_path / "empty").mkdir()
        text = changed("path: trades.csv", f"path: '{path}'\n    format: csv")
        ((_, key, message),) = problems(text)
        assert key == "streams.trades.path"
        assert "contains no files, so the columns are unknown" in message
        text = text.replace("time: ts", "schema: {ts: timestamp, price: double, shares: int}\n    time: ts")
        assert "contains no files yet; `run` waits for them" in explained(text)
