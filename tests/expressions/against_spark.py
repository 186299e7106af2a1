"""Compare our evaluation of expressions with Spark's: types, values to the bit, and failures."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.errors import SkybandError
from skyband.expressions.compiler import compile_expression
from skyband.expressions.failures import CONDITIONS
from skyband.expressions.nodes import Evaluation

JAVA = "java.lang.ArithmeticException: long overflow"  # Spark has no condition for a timestamp plus an interval
# Rules of Spark's optimizer that replace an expression by one that evaluates less.
EXCLUDED = "spark.sql.optimizer.excludedRules"
RULES = ["BooleanSimplification", "ConstantFolding", "NullPropagation", "OptimizeIn", "PushFoldableIntoBranches"]
RULES += ["ReplaceNullWithFalseInPredicate", "SimplifyBinaryComparison", "SimplifyCasts", "SimplifyConditionals"]


@dataclass
class Outcome:
    """Our side: the type, the values, and the condition of each row that failed."""

    text: str
    type: pa.DataType
    values: pa.Array
    failed: dict[int, str]


@dataclass
class Report:
    """What was compared, and every difference."""

    counts: Counter = field(default_factory=Counter)
    differences: list[str] = field(default_factory=list)

    def __str__(self):
        parts = [f"{count:,} {name}" for name, count in sorted(self.counts.items())]
        return f"expressions compared with Spark: {', '.join(parts)}; {len(self.differences)} differences"


def ours(text, data):
    """Our outcome, or None if the expression is rejected."""
    try:
        compiled = compile_expression(text, data.schema)
    except SkybandError:
        return None
    columns = {name: data.column(name).combine_chunks() for name in compiled.columns}
    value = Evaluation(data.num_rows, columns).value(compiled._root)
    values = pa.repeat(value.data, data.num_rows) if isinstance(value.data, pa.Scalar) else value.data
    codes = np.zeros(1, np.uint8) if value.failed is None else value.failed
    codes = np.broadcast_to(codes, data.num_rows)
    names = list(CONDITIONS)
    assert values.type == compiled.type, (text, values.type, compiled.type)
    assert len(values) == data.num_rows, text
    return Outcome(text, compiled.type, values, {int(at): names[codes[at]] for at in np.flatnonzero(codes)})


def compare(spark, data, texts, *, failures=20, batch=150):
    """Evaluate the texts on both sides; `failures` bounds how many failing expressions are checked one by one."""
    report = Report()
    plain = [field.name for field in data.schema if field.type == pa.timestamp("us")]
    frame = spark.createDataFrame(data).coalesce(1)
    for name in plain:  # Spark takes Arrow's timestamps without a zone for those of the session
        frame = frame.withColumn(name, frame[name].cast("timestamp_ntz"))
    frame = frame.cache()
    outcomes = []
    for text in dict.fromkeys(texts):
        outcome = ours(text, data)
        report.counts["accepted" if outcome else "rejected"] += 1
        if outcome:
            outcomes.append(outcome)
    for start in range(0, len(outcomes), batch):
        _values(frame, outcomes[start : start + batch], report)
    failing = [outcome for outcome in outcomes if _known(outcome)]
    report.counts["with failing rows"] = len([outcome for outcome in outcomes if outcome.failed])
    for outcome in failing[:failures]:
        _failure(spark, frame, outcome, report)
    frame.unpersist()
    return report


def _known(outcome):
    return [row for row, condition in outcome.failed.items() if not condition.startswith("SKYBAND")]


def _guarded(outcome):
    """The expression on the rows where ours does not fail; the others are null."""
    if not outcome.failed:
        return outcome.text
    return f"if(id IN ({', '.join(map(str, outcome.failed))}), null, ({outcome.text}\n))"


def _values(frame, outcomes, report):
    """Compare values on rows that do not fail; a batch that fails on Spark is halved until the culprit is alone."""
    try:
        found = frame.selectExpr(*(f"{_guarded(o)} AS x{at}" for at, o in enumerate(outcomes))).toArrow()
    except Exception as error:
        if len(outcomes) > 1:
            _values(frame, outcomes[: len(outcomes) // 2], report)
            _values(frame, outcomes[len(outcomes) // 2 :], report)
        else:
            report.differences.append(f"{outcomes[0].text}: only Spark fails: {str(error).splitlines()[0][:200]}")
        return
    for at, outcome in enumerate(outcomes):
        theirs = found.column(at).combine_chunks()
        report.counts["values"] += len(theirs)
        difference = _different(outcome, theirs)
        if difference:
            report.differences.append(f"{outcome.text}: {difference}")


def _different(outcome, theirs):
    mine = outcome.values
    if mine.type != theirs.type:
        return f"type {mine.type}, Spark has {theirs.type}"
    if outcome.failed:
        keep = pa.array([row not in outcome.failed for row in range(len(mine))])
        mine, theirs = mine.filter(keep), theirs.filter(keep)
    if pa.types.is_null(mine.type):
        return ""
    if pa.types.is_floating(mine.type):
        same = _bits(mine) == _bits(theirs)
    else:
        same = pc.fill_null(pc.equal(mine, theirs), False).to_numpy(zero_copy_only=False)
    same = same | pc.and_(pc.is_null(mine), pc.is_null(theirs)).to_numpy(zero_copy_only=False)
    if same.all():
        return ""
    at = int(np.flatnonzero(~same)[0])
    return f"row {at}: {mine[at]!r}, Spark has {theirs[at]!r} ({(~same).sum()} rows differ)"


def _bits(values):
    """Doubles as bits, all NaN alike and nulls as one more pattern."""
    numbers = pc.fill_null(values, 0.0).to_numpy(zero_copy_only=False)
    found = np.where(np.isnan(numbers), np.nan, numbers).astype(numbers.dtype)
    bits = found.view(np.int64 if numbers.dtype == np.float64 else np.int32).copy()
    bits[pc.is_null(values).to_numpy(zero_copy_only=False)] = 12345
    return bits


def _failure(spark, frame, outcome, report):
    """A row where ours fails must fail on Spark with the same condition, or the optimizer has removed what fails."""
    row = _known(outcome)[0]
    report.counts["failures"] += 1
    error = _error(frame, outcome.text, row)
    if error is None:
        before = spark.conf.get(EXCLUDED, None)
        spark.conf.set(EXCLUDED, ",".join(f"org.apache.spark.sql.catalyst.optimizer.{rule}" for rule in RULES))
        error = _error(frame, outcome.text, row)
        if before is None:
            spark.conf.unset(EXCLUDED)
        else:
            spark.conf.set(EXCLUDED, before)
        report.counts["failures that the optimizer removes"] += error is not None
    if error is None:
        report.differences.append(f"{outcome.text}: only ours fails at row {row}: {outcome.failed[row]}")
    elif outcome.failed[row] == "DATETIME_OVERFLOW" and JAVA in error:
        report.counts["failures without a condition on Spark"] += 1
    elif f"[{outcome.failed[row]}" not in error:
        if any(condition and f"[{condition}" in error for condition in CONDITIONS):
            report.counts["failures with another condition"] += 1  # two operands fail, and Spark begins with the other
        else:
            report.differences.append(f"{outcome.text}: {outcome.failed[row]}, Spark has {error.splitlines()[0][:200]}")


def _error(frame, text, row):
    try:
        frame.where(f"id = {row}").selectExpr(f"({text}\n) AS x").collect()
    except Exception as error:
        return str(error)
    return None
