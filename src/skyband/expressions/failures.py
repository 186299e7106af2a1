"""Errors of expressions: texts that cannot be compiled, and rows that cannot be evaluated."""

from __future__ import annotations

from skyband.errors import InvalidInputError, InvalidQueryError

__all__ = ["CONDITIONS", "EvaluationError", "InvalidExpressionError", "code"]

# Spark's error conditions. Evaluation marks a failed row with the place of its condition here; 0 means no failure.
CONDITIONS = {
    "": "",
    "ARITHMETIC_OVERFLOW": "the result does not fit into its type",
    "BINARY_ARITHMETIC_OVERFLOW": "the result does not fit into its type",
    "CAST_INVALID_INPUT": "the text is not a value of the target type",
    "CAST_OVERFLOW": "the value does not fit into the target type",
    "DATETIME_OVERFLOW": "the result is outside the range of timestamps",
    "DIVIDE_BY_ZERO": "the divisor is 0",
    "INVALID_INDEX_OF_ZERO": "the index is 0, but parts are counted from 1",
    "NUMERIC_VALUE_OUT_OF_RANGE": "the result has more digits than its decimal type",
    "REMAINDER_BY_ZERO": "the divisor is 0",
    "SKYBAND_TOO_LONG": "the texts of the rows from there on have more than 2 GB together",
    "SKYBAND_UNSUPPORTED_VALUE": "the value has a form that is supported on Spark but not in process",
}
_CODES = {condition: number for number, condition in enumerate(CONDITIONS)}


def code(condition: str) -> int:
    """Return the number that marks rows failed with `condition`.

    >>> code("DIVIDE_BY_ZERO") > 0
    True
    """
    return _CODES[condition]


class InvalidExpressionError(InvalidQueryError):
    """An expression that cannot be parsed, or whose operands have types that do not fit."""

    @classmethod
    def types(cls, what: str, found: str, rule: str) -> InvalidExpressionError:
        """Build the error for operands of the wrong type."""
        return cls(f"{what} got {found}, but {rule}. The expression was not compiled; cast an operand.")


class EvaluationError(InvalidInputError):
    """A row on which an expression fails, as it does on Spark in ANSI mode.

    `condition` is Spark's error condition, such as ``DIVIDE_BY_ZERO``; `row` counts from 0 in the evaluated data.
    """

    condition: str = ""
    expression: str = ""
    row: int = 0

    @classmethod
    def at(cls, expression: str, number: int, row: int) -> EvaluationError:
        """Build the error for the condition with this number, at this row."""
        condition = list(CONDITIONS)[number]
        error = cls(
            f"[{condition}] expression {expression!r} failed at row {row}: {CONDITIONS[condition]}. "
            "No value was returned for any row. Filter such rows out, or use try_cast, try_divide or similar."
        )
        error.condition, error.expression, error.row = condition, expression, row
        return error

    def of_key(self, key: str) -> EvaluationError:
        """Return the error with the key of the row.

        >>> print(EvaluationError.at("1 / n", code("DIVIDE_BY_ZERO"), 1).of_key("'bob'"))
        [DIVIDE_BY_ZERO] expression '1 / n' failed at row 1, with key 'bob': the divisor is 0. \
No value was returned for any row. Filter such rows out, or use try_cast, try_divide or similar.
        """
        at = f"failed at row {self.row}"
        error = EvaluationError(str(self).replace(at, f"{at}, with key {key}", 1))
        error.condition, error.expression, error.row = self.condition, self.expression, self.row
        return error
