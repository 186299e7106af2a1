"""Columns of every kind give the same answers and are never changed; what cannot be ranked is refused."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import skyband as sb

QUERY = sb.TopK(k=2, size="10 microseconds", slide="5 microseconds")
COUNT = sb.TopK(k=2, size=3, slide=2)

POSITIONS, SCORES, IDS = [1, 3, 6, 8], [7, 2, 9, 2], [40, 30, 20, 10]
WANT = [
    *[(-5, 5, 1, 40, 7.0), (-5, 5, 2, 30, 2.0)],
    *[(0, 10, 1, 20, 9.0), (0, 10, 2, 40, 7.0)],
    *[(5, 15, 1, 20, 9.0), (5, 15, 2, 10, 2.0)],
]


def rows(table):
    return list(zip(*(table[name].to_pylist() for name in table.column_names[1:]), strict=True))


def chunked(values, kind=None):
    kind = kind or pa.int64()
    return pa.chunked_array([pa.array(values[:1], kind), pa.array([], kind), pa.array(values[1:], kind)])


WHOLE_NUMBERS = {
    "list": list,
    "tuple": tuple,
    "pandas index": pd.Index,
    "numpy int64": lambda values: np.array(values, np.int64),
    "numpy int32": lambda values: np.array(values, np.int32),
    "numpy int8": lambda values: np.array(values, np.int8),
    "numpy uint16": lambda values: np.array(values, np.uint16),
    "numpy uint64": lambda values: np.array(values, np.uint64),
    "numpy big-endian": lambda values: np.array(values, ">i8"),
    "numpy strided": lambda values: np.repeat(np.array(values, np.int64), 2)[::2],
    "numpy reversed": lambda values: np.array(values[::-1], np.int64)[::-1],
    "numpy column of a matrix": lambda values: np.array([values, values], np.int64).T[:, 1],
    "numpy objects": lambda values: np.array(values, object),
    "arrow": pa.array,
    "arrow int16": lambda values: pa.array(values, pa.int16()),
    "arrow slice": lambda values: pa.array([0, *values, 0])[1:-1],
    "arrow chunked": chunked,
    "arrow dictionary": lambda values: pa.array(values).dictionary_encode(),
    "pandas": pd.Series,
    "pandas odd index": lambda values: pd.Series(values, index=[9, 9, 4, 0]),
    "pandas Int64": lambda values: pd.Series(values, dtype="Int64"),
    "pandas UInt8": lambda values: pd.Series(values, dtype="UInt8"),
    "pandas arrow": lambda values: pd.Series(values, dtype="int64[pyarrow]"),
    "pandas category": lambda values: pd.Series(values, dtype="category"),
    "polars": pl.Series,
    "polars Int16": lambda values: pl.Series(values, dtype=pl.Int16),
    "polars chunked": lambda values: pl.Series(values[:2]).append(pl.Series(values[2:])),
}
NUMBERS = {
    **WHOLE_NUMBERS,
    "numpy float64": lambda values: np.array(values, np.float64),
    "numpy float32": lambda values: np.array(values, np.float32),
    "numpy float16": lambda values: np.array(values, np.float16),
    "numpy big-endian float": lambda values: np.array(values, ">f8"),
    "numpy unaligned": lambda values: np.frombuffer(b"x" + np.array(values, float).tobytes(), np.uint8)[1:].view(float),
    "arrow double": lambda values: pa.array(values, pa.float64()),
    "arrow half": lambda values: pa.array(np.array(values, np.float16)),
    "arrow decimal": lambda values: pa.array([Decimal(value) for value in values]),
    "pandas Float64": lambda values: pd.Series(values, dtype="Float64"),
    "polars Float32": lambda values: pl.Series(values, dtype=pl.Float32),
}


class TestEveryKind:
    @pytest.mark.parametrize("kind", NUMBERS)
    def test_scores(self, kind):
        assert rows(sb.replay(QUERY, POSITIONS, NUMBERS[kind](SCORES), IDS)) == WANT

    @pytest.mark.parametrize("kind", WHOLE_NUMBERS)
    def test_positions(self, kind):
        assert rows(sb.replay(QUERY, WHOLE_NUMBERS[kind](POSITIONS), SCORES, IDS)) == WANT

    @pytest.mark.parametrize("kind", WHOLE_NUMBERS)
    def test_ids(self, kind):
        table = sb.replay(QUERY, POSITIONS, SCORES, WHOLE_NUMBERS[kind](IDS))
        assert rows(table) == WANT

    def test_output_types(self):
        table = sb.replay(QUERY, POSITIONS, SCORES, IDS)
        assert table.schema == pa.schema(
            [
                ("query", pa.string()),
                ("window_start", pa.int64()),
                ("window_end", pa.int64()),
                ("rank", pa.int64()),
                ("id", pa.int64()),
                ("score", pa.float64()),
            ]
        )

    def test_no_ids_are_row_numbers_left_out_rows_included(self):
        table = sb.replay(COUNT, None, [5.0, None, 7.0, 6.0])
        assert table["id"].to_pylist() == [2, 0]

    def test_empty_columns_of_any_kind(self):
        for empty in ([], (), np.array([]), np.array([], int), pa.array([]), pd.Series([], dtype=float), pl.Series([])):
            assert sb.replay(COUNT, None, empty).num_rows == 0
        for empty in ([], np.array([], int), np.array([], "M8[us]"), pa.array([], pa.timestamp("s")), pl.Series([])):
            assert sb.replay(QUERY, empty, []).num_rows == 0

    @pytest.mark.parametrize("empty", [[], pa.array([]), pl.Series([]), np.array([], object)])
    def test_empty_ids(self, empty):
        assert sb.replay(QUERY, [], [], empty).num_rows == 0


WHEN = [datetime(2024, 3, 1, 9, 30, 0), datetime(2024, 3, 1, 9, 30, 20), datetime(2024, 3, 1, 9, 31, 5)]
NEW_YORK = pl.Datetime("us", "America/New_York")
MINUTE = sb.TopK(k=1, size="1 minute")
WINDOW_ENDS = [datetime(2024, 3, 1, 9, 31), datetime(2024, 3, 1, 9, 32)]


class TestTimestamps:
    @pytest.mark.parametrize(
        "column",
        [
            WHEN,
            np.array(WHEN, "datetime64[s]"),
            np.array(WHEN, "datetime64[ms]"),
            np.array(WHEN, "datetime64[us]"),
            np.array(WHEN, "datetime64[ns]"),
            pa.array(WHEN, pa.timestamp("s")),
            pa.array(WHEN, pa.timestamp("ns")),
            chunked(WHEN, pa.timestamp("us")),
            pd.Series(WHEN),
            pd.DatetimeIndex(WHEN),
            pl.Series(WHEN),
            pl.Series(WHEN, dtype=pl.Datetime("ns")),
        ],
        ids=lambda column: f"{type(column).__module__}.{getattr(column, 'dtype', getattr(column, 'type', 'list'))}",
    )
    def test_in_and_out(self, column):
        table = sb.replay(MINUTE, column, [1.0, 3.0, 2.0])
        assert table.schema.field("window_end").type == pa.timestamp("us")
        assert table.schema.field("window_start").type == pa.timestamp("us")
        assert table["window_end"].to_pylist() == WINDOW_ENDS
        assert table["window_start"].to_pylist() == [end - timedelta(minutes=1) for end in WINDOW_ENDS]
        assert table["id"].to_pylist() == [1, 2]

    @pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Kolkata"])
    @pytest.mark.parametrize("build", [pd.Series, pd.DatetimeIndex, lambda stamps: pl.Series(list(stamps))])
    def test_time_zones_come_back(self, zone, build):
        stamps = pd.to_datetime(WHEN, utc=True).tz_convert(zone)
        table = sb.replay(MINUTE, build(stamps), [1.0, 3.0, 2.0])
        assert table.schema.field("window_end").type == pa.timestamp("us", zone)
        assert [end.astimezone(UTC).replace(tzinfo=None) for end in table["window_end"].to_pylist()] == WINDOW_ENDS

    @pytest.mark.parametrize("build", [lambda v: np.array(v, "M8[ns]"), lambda v: pa.array(v, pa.timestamp("ns"))])
    def test_nanoseconds_before_1970_go_down(self, build):
        #  position -1 ns lies in the microsecond [-1, 0), not in [0, 1)
        table = sb.replay(sb.TopK(k=1, size="1 microsecond"), build([-1, 1]), [1.0, 2.0])
        assert table["window_end"].cast(pa.int64()).to_pylist() == [0, 1]

    @pytest.mark.parametrize("unit", ["W", "D", "h", "m", "s", "ms", "us", "ns", "10s"])
    def test_numpy_times_of_every_unit_in_arrays_and_lists(self, unit):
        when = np.array(["2024-02-29", "2024-03-07"], f"M8[{unit}]")
        for column in (when, list(when), [*when, None], [*when, np.datetime64("NaT")]):
            table = sb.replay(sb.TopK(k=1, size="1 day"), column, [1.0, 2.0, 3.0][: len(column)])
            assert table["window_start"].to_pylist() == [datetime(2024, 2, 29), datetime(2024, 3, 7)]

    def test_dates_are_midnights(self):
        table = sb.replay(sb.TopK(k=1, size="1 day"), [date(1969, 12, 31), date(1970, 1, 1)], [1.0, 2.0])
        assert table["window_end"].to_pylist() == [datetime(1970, 1, 1), datetime(1970, 1, 2)]

    def test_not_a_time_is_left_out(self):
        for column in (
            np.array([*WHEN[:1], "NaT", *WHEN[1:]], "datetime64[us]"),
            pd.Series([WHEN[0], pd.NaT, *WHEN[1:]]),
            pl.Series([WHEN[0], None, *WHEN[1:]]),
        ):
            monitor = sb.Monitor(MINUTE)
            monitor.push(column, [1.0, 99.0, 3.0, 2.0])
            monitor.finish()
            assert monitor.answers()["score"].to_pylist() == [3.0, 2.0]
            assert monitor.metrics()["dropped_null"] == 1

    def test_a_stream_has_one_clock(self):
        clocks = [[2**60], WHEN[:1], pd.Series(pd.to_datetime(WHEN[:1], utc=True)), pl.Series(WHEN[:1], dtype=NEW_YORK)]
        for first in clocks:
            for second in clocks:
                if first is not second:
                    monitor = sb.Monitor(MINUTE)
                    monitor.push(first, [1.0])
                    with pytest.raises(sb.InvalidInputError, match="positions changed type from"):
                        monitor.push(second, [1.0])

    def test_units_of_one_clock_may_change(self):
        monitor = sb.Monitor(MINUTE)
        for unit, when in zip(["s", "ms", "ns"], WHEN, strict=True):
            monitor.push(np.array([when], f"M8[{unit}]"), [1.0])
        monitor.finish()
        assert monitor.answers()["window_end"].to_pylist() == WINDOW_ENDS

    def test_nulls_alone_do_not_settle_the_clock(self):
        monitor = sb.Monitor(MINUTE)
        monitor.push([None], [1.0])
        monitor.push(WHEN, [1.0, 3.0, 2.0])


class TestMissing:
    @pytest.mark.parametrize(
        "column",
        [
            [7.0, None, 9.0, None],
            [7.0, math.nan, 9.0, math.nan],
            np.array([7.0, math.nan, 9.0, math.nan]),
            np.array([7, None, 9, None], object),
            pa.array([7, None, 9, None]),
            pa.array([7.0, math.nan, 9.0, None]),
            pd.Series([7, None, 9, None], dtype="Int64"),
            pd.Series([7, None, 9, None], dtype="Float64"),
            pd.Series([7, math.nan, 9, math.nan]),
            pl.Series([7, None, 9, None]),
            pl.Series([7.0, math.nan, 9.0, None]),
        ],
    )
    def test_rows_without_a_score_are_left_out_and_counted(self, column):
        monitor = sb.Monitor(QUERY)
        monitor.push(POSITIONS, column, IDS)
        monitor.finish()
        assert rows(monitor.answers()) == [
            (-5, 5, 1, 40, 7.0),
            *[(0, 10, 1, 20, 9.0), (0, 10, 2, 40, 7.0)],
            (5, 15, 1, 20, 9.0),
        ]
        assert (monitor.metrics()["dropped_null"], monitor.metrics()["objects"]) == (2, 2)

    @pytest.mark.parametrize(
        "column",
        [[1, None, 6, None], pa.array([1, None, 6, None]), pd.Series([1, None, 6, None], dtype="Int64")],
    )
    def test_rows_without_a_position_are_left_out(self, column):
        assert {row[3] for row in rows(sb.replay(QUERY, column, SCORES, IDS))} == {40, 20}

    @pytest.mark.parametrize("kind", [float, int, np.float32, np.uint64, object])
    def test_masked_numpy_scores_are_missing(self, kind):
        masked = np.ma.array([7, 99, 8], kind, mask=[False, True, False])
        assert sb.replay(COUNT, None, masked)["id"].to_pylist() == [2, 0]

    @pytest.mark.parametrize("kind", ["M8[D]", "M8[h]", "M8[s]", "M8[ns]", int, np.uint8])
    def test_masked_numpy_positions_are_missing(self, kind):
        masked = np.ma.array(np.array([1, 99, 2]).astype(kind), mask=[False, True, False])
        monitor = sb.Monitor(MINUTE)
        monitor.push(masked, [1.0, 9.0, 2.0])
        monitor.finish()
        assert 1 not in monitor.answers()["id"].to_pylist()
        assert monitor.metrics()["dropped_null"] == 1

    def test_a_mask_that_hides_nothing(self):
        columns = [np.ma.array(column) for column in (POSITIONS, SCORES, IDS)]
        assert rows(sb.replay(QUERY, *columns)) == WANT

    @pytest.mark.parametrize("ids", [np.ma.array([1, 2], mask=[0, 1]), np.ma.array(["a", "b"], mask=[0, 1])])
    def test_masked_numpy_ids_are_null(self, ids):
        with pytest.raises(sb.InvalidInputError, match=r"got null at ids\[1\]"):
            sb.replay(COUNT, None, [1.0, 2.0], ids)

    def test_ids_that_are_not_a_number_are_null(self):
        for ids in ([1.5, math.nan], pa.array([1.5, math.nan]), pl.Series([1.5, math.nan])):
            with pytest.raises(sb.InvalidInputError, match=r"got null at ids\[1\]"):
                sb.replay(COUNT, None, [1.0, 2.0], ids)

    @pytest.mark.parametrize("kind", [pa.string(), pa.bool_(), pa.timestamp("s"), pa.null()])
    def test_a_column_without_a_value_has_no_type(self, kind):
        monitor = sb.Monitor(QUERY)
        monitor.push(pa.nulls(2, kind), pa.nulls(2, kind), groups=pa.nulls(2, kind))
        monitor.push([1], [1.0], groups=["a"])
        assert monitor.metrics()["dropped_null"] == 2

    def test_a_null_id_is_refused_with_its_index(self):
        with pytest.raises(sb.InvalidInputError, match=r"got null at ids\[2\]. Ties are broken by id"):
            sb.replay(QUERY, POSITIONS, SCORES, ["a", "b", None, "d"])


class TestRefused:
    @pytest.mark.parametrize("value", [2**53 + 1, -(2**53) - 1, 2**62, -(2**63), 2**63 - 1])
    @pytest.mark.parametrize("build", [list, np.array, pa.array, pd.Series, pl.Series, lambda v: pa.array([*v, None])])
    def test_whole_numbers_beyond_two_to_the_53(self, value, build):
        column = build([1, value])
        with pytest.raises(sb.InvalidInputError, match=r"must not exceed 2\*\*53, got scores\[1\]=") as caught:
            sb.replay(COUNT, None, column)
        assert str(value) in str(caught.value)
        assert "ranked wrongly" in str(caught.value)

    def test_unsigned_beyond_two_to_the_53(self):
        with pytest.raises(sb.InvalidInputError, match="18446744073709551615"):
            sb.replay(COUNT, None, np.array([1, 2**64 - 1], np.uint64))

    @pytest.mark.parametrize("value", [2**53, -(2**53)])
    def test_two_to_the_53_itself_is_exact(self, value):
        assert sb.replay(COUNT, None, np.array([value, value]))["score"].to_pylist() == [float(value)] * 2

    @pytest.mark.parametrize(
        "column",
        [
            ["1", "2"],
            np.array(["1", "2"]),
            pa.array(["1", "2"]),
            pd.Series(["1", "2"]),
            pl.Series(["1", "2"]),
            [True, False],
            np.array([True, False]),
            [WHEN[0], WHEN[1]],
            np.array(WHEN[:2], "M8[us]"),
            [b"1", b"2"],
            [[1], [2]],
            [{"a": 1}, {"a": 2}],
        ],
    )
    def test_scores_that_are_no_numbers(self, column):
        with pytest.raises(sb.InvalidInputError, match="scores must be numbers, got type"):
            sb.replay(COUNT, None, column)

    @pytest.mark.parametrize("column", [np.ones((2, 2)), np.array([1j, 2j]), [1.0, "a"], [1, [2]]])
    def test_scores_that_are_no_column(self, column):
        with pytest.raises(sb.InvalidInputError, match="scores cannot be converted to a column of one type"):
            sb.replay(COUNT, None, column)

    @pytest.mark.parametrize("column", [5, 5.0, np.float64(5), np.array(5.0), iter([1.0])])
    def test_not_a_column_at_all(self, column):
        with pytest.raises(sb.InvalidInputError, match=r"is not a column. Pass a list"):
            sb.replay(COUNT, None, column)

    @pytest.mark.parametrize(
        ("column", "kind"),
        [
            ([1.0, 2.0], "double"),
            (["2024-01-01", "2024-01-02"], "string"),
            ([timedelta(1), timedelta(2)], "duration"),
            ([True, False], "bool"),
        ],
    )
    def test_positions_of_no_axis(self, column, kind):
        with pytest.raises(
            sb.InvalidInputError, match=f"positions must be int64 microseconds or timestamps, got type {kind}"
        ):
            sb.replay(QUERY, column, [1.0, 2.0])

    @pytest.mark.parametrize("far", [2**62, -(2**62), 2**63 - 1])
    @pytest.mark.parametrize("build", [list, np.array, pa.array])
    def test_positions_beyond_the_axis(self, far, build):
        column = build(sorted([0, far]))
        with pytest.raises(sb.InvalidInputError, match=r"must be below 2\*\*62 microseconds, got positions\[[01]\]="):
            sb.replay(QUERY, column, [1.0, 2.0])

    @pytest.mark.parametrize("ids", [[[1], [2]], [{"a": 1}, {"a": 2}], [None, None]])
    def test_ids_without_an_order(self, ids):
        with pytest.raises(sb.InvalidInputError, match=r"ids must (be sortable|not be null)"):
            sb.replay(COUNT, None, [1.0, 2.0], ids)

    @pytest.mark.parametrize("name", ["scores", "ids", "groups"])
    @pytest.mark.parametrize("far", [2**63, 2**70, -(2**70)])
    @pytest.mark.parametrize("build", [list, lambda values: np.array(values, object)])
    def test_python_integers_of_any_size(self, name, far, build):
        for values in ([1, far], [far, 1]):
            with pytest.raises(sb.InvalidInputError, match=f"{name} cannot be converted to a column"):
                sb.replay(COUNT, None, **{"scores": [1.0, 2.0], name: build(values)})

    @pytest.mark.parametrize("name", ["positions", "scores", "ids", "groups"])
    @pytest.mark.parametrize(
        "table",
        [
            pd.DataFrame({"a": [1, 2]}),
            pl.DataFrame({"a": [1, 2]}),
            pa.table({"a": [1, 2]}),
            pa.record_batch({"a": [1, 2]}),
            np.ones((2, 1), int),
            np.ma.ones((2, 2)),
            np.array([["2024-01-01"], ["2024-01-02"]], "M8[D]"),
        ],
        ids=lambda table: f"{type(table).__module__}.{type(table).__name__}",
    )
    def test_tables(self, name, table):
        if name == "positions" and not isinstance(table, np.ndarray):  # a data frame, and scores are given beside it
            with pytest.raises(sb.InvalidInputError, match=r"scores= is for arrays; with a data frame"):
                sb.replay(QUERY, table, [1.0, 2.0])
            return
        with pytest.raises(
            sb.InvalidInputError,
            match=rf"{name} cannot be converted to a column.*of shape \(2, \d\).*Pass one column of it",
        ):
            sb.replay(QUERY, **{"positions": [1, 2], "scores": [1.0, 2.0], name: table})

    @pytest.mark.parametrize("column", ["ab", b"ab", {1: 1.0, 2: 2.0}, {1.0, 2.0}, frozenset({1, 2})])
    def test_what_has_a_length_but_no_rows(self, column):
        with pytest.raises(sb.InvalidInputError, match=r"is not a column. Pass a list"):
            sb.replay(COUNT, None, [1.0, 2.0], column)

    @pytest.mark.parametrize(
        "column",
        [
            np.array([0, 10**15], "M8[s]"),
            np.array([-(10**15), 0], "M8[s]"),
            np.array([0, 10**18], "M8[ms]"),
            np.array([0, 10**12], "M8[D]"),
            np.array([0, 10**6], "M8[Y]"),
            pa.array([None, 10**15], pa.timestamp("s")),
            pa.array([0, 10**18], pa.timestamp("ms", "UTC")),
            pa.array([0, 2**31 - 1], pa.int32()).cast(pa.date32()),
            pa.array([0, 2**62], pa.timestamp("us")),
            [np.datetime64(0, "s"), np.datetime64(10**15, "s")],
        ],
        ids=lambda column: str(getattr(column, "dtype", getattr(column, "type", "list"))),
    )
    def test_times_beyond_the_axis_do_not_come_round(self, column):
        with pytest.raises(sb.InvalidInputError, match=r"must be below 2\*\*62 microseconds, got positions\[[01]\]="):
            sb.replay(QUERY, column, [1.0, 2.0])

    def test_times_of_two_units_in_a_list(self):
        with pytest.raises(
            sb.InvalidInputError, match=r"positions must be of one type, got datetime64\[ns\], datetime64\[s\]"
        ):
            sb.replay(QUERY, [np.datetime64(0, "ns"), np.datetime64(10**12, "s")], [1.0, 2.0])

    def test_the_row_that_is_meant_is_named_behind_nulls(self):
        with pytest.raises(sb.InvalidInputError, match=r"positions\[2\]="):
            sb.replay(QUERY, [None, None, 2**62], [1.0, 2.0, 3.0])
        with pytest.raises(sb.InvalidInputError, match=r"scores\[2\]="):
            sb.replay(COUNT, None, [None, None, 2**60])


class TestUntouched:
    @pytest.mark.parametrize("order", ["asc", "desc"])
    @pytest.mark.parametrize("algorithm", ["auto", "mintopk", "naive"])
    def test_push_changes_no_input(self, order, algorithm):
        positions, scores = np.arange(50), np.arange(50)[::-1] * 0.5
        scores[7] = math.nan
        ids, groups = np.arange(50)[::-1].copy(), np.array(list("ab") * 25)
        columns = [positions, scores, ids, groups]
        before = [column.copy() for column in columns]
        query = sb.TopK(k=3, size="9 microseconds", slide="4 microseconds", order=order)
        sb.replay(query, positions, scores, ids, algorithm, groups=groups)
        assert all(
            np.array_equal(*pair, equal_nan=pair[0].dtype == float) for pair in zip(columns, before, strict=True)
        )

    @pytest.mark.parametrize("order", ["asc", "desc"])
    def test_read_only_columns_are_taken(self, order):
        columns = [np.array(POSITIONS), np.array(SCORES, float), np.array(IDS)]
        for column in columns:
            column.flags.writeable = False
        query = sb.TopK(k=2, size="10 microseconds", slide="5 microseconds", order=order)
        table = sb.replay(query, *columns)
        assert table.equals(sb.replay(query, POSITIONS, SCORES, IDS))

    @pytest.mark.parametrize("ids", [np.array(IDS), np.array(["d", "c", "b", "a"])])
    def test_columns_may_be_reused_after_push(self, ids):
        monitor = sb.Monitor(QUERY)
        columns = [np.array(POSITIONS), np.array(SCORES, float), ids.copy()]
        monitor.push(*columns)
        blob = monitor.snapshot()
        columns[0][:] = 0
        columns[1][:] = 1e9
        columns[2][:] = columns[2][0]
        assert monitor.snapshot() == blob
        monitor.finish()
        assert rows(monitor.answers()) == rows(sb.replay(QUERY, POSITIONS, SCORES, ids))
