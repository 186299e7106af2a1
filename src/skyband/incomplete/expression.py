"""Scores by an expression over the streams: proof that it is monotone, and its steps for the kernels.

An object is dropped when its best possible score is known to be too low. That needs a score that does not fall when a
value rises. Here it follows from the structure of the expression and the bounds of the streams: ``a * b`` rises with
both if neither is negative, ``10 - a`` falls with ``a``. What cannot be derived is rejected, also if it is monotone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np

from skyband.errors import InvalidQueryError, UnknownNameError
from skyband.expressions.failures import InvalidExpressionError
from skyband.expressions.parser import parse
from skyband.expressions.syntax import Call, ColumnName, Literal, Syntax
from skyband.incomplete.kernels import attributes
from skyband.incomplete.kernels.attributes import EXPRESSION, Scoring

__all__ = ["compiled"]

Interval: TypeAlias = tuple[float, float]

_OPERATORS = {"+": attributes.ADD, "-": attributes.SUBTRACT, "*": attributes.MULTIPLY, "/": attributes.DIVIDE}
_EXTREMES = {"least": attributes.LEAST, "greatest": attributes.GREATEST}
_RISING = {  # function: step, smallest argument, whether that argument itself is allowed
    "sqrt": (attributes.SQRT, 0.0, True),
    "exp": (attributes.EXP, -math.inf, True),
    "ln": (attributes.LN, 0.0, False),
    "log10": (attributes.LOG10, 0.0, False),
    "log1p": (attributes.LOG1P, -1.0, False),
}
_POWERS = ("power", "pow")
_SUPPORTED = ", ".join(["+ - * /", *_EXTREMES, *_RISING, "power", "abs"])
_ERROR = 2.0**-50  # relative; functions of the C library are off by less than 2**-52, and by as much in the other value


def compiled(
    text: str,
    streams: Sequence[str | int],
    bounds: Mapping[str | int, Interval],
    occurrences: int = 1,
    *,
    ascending: bool = False,
) -> Scoring:
    """Return the steps of an expression over the values of `streams`. Reject one that is not known to be monotone.

    `bounds` are those of a value; a stream adds up to `occurrences` of them. With `ascending`, the steps are those of
    the negated score over negated values, which rises with these.

    >>> scoring = compiled("0.5 * a + sqrt(b)", ["a", "b"], {"a": (0, 1), "b": (0, 100)})
    >>> attributes.evaluate(np.array([0.5, 9.0]), scoring, False)
    3.25
    """
    made = _Compiler(text, streams, bounds, occurrences)
    tree = parse(text)
    low, high = made.range_of(tree)
    if not (math.isfinite(low) and math.isfinite(high)):
        raise made.refusal("scores could exceed the float range, where they cannot be ranked. Scale the values down")
    made.add(tree, 1)
    if not made.used:
        raise made.refusal("it contains no stream, so all objects would have the same score")
    if ascending:
        made.mirror()
    steps = np.array(made.steps, np.int64).reshape(-1, 2)
    return Scoring(EXPRESSION, np.ones(len(streams)), steps, np.array(made.numbers), np.empty(len(made.steps)))


class _Compiler:
    """Collects the steps of one expression."""

    def __init__(
        self, text: str, streams: Sequence[str | int], bounds: Mapping[str | int, Interval], occurrences: int
    ) -> None:
        self.text = text
        self.places = {str(stream): place for place, stream in enumerate(streams)}
        # Sums are rounded, so they may exceed their bound a little.
        more = occurrences * (1 + 1e-9) if occurrences > 1 else 1
        pairs = {str(stream): (float(bounds[stream][0]), float(bounds[stream][1])) for stream in streams}
        self.ranges = {name: (min(low, low * more), max(high, high * more)) for name, (low, high) in pairs.items()}
        self.steps: list[tuple[int, int]] = []
        self.numbers: list[float] = []
        self.used: set[str] = set()

    def refusal(self, why: str) -> InvalidQueryError:
        return InvalidExpressionError(f"aggregate={self.text!r}: {why}.")

    def range_of(self, node: Syntax) -> Interval:
        """Return the smallest and the largest value of an expression."""
        if isinstance(node, Literal):
            number = self._constant(node)
            return number, number
        if isinstance(node, ColumnName):
            if node.name not in self.ranges:
                raise UnknownNameError.among(f"stream in aggregate={self.text!r}", node.name, self.places)
            return self.ranges[node.name]
        if not isinstance(node, Call):
            raise self.refusal(f"casts are not supported. Use {_SUPPORTED}")
        args = [self.range_of(arg) for arg in node.args]
        with np.errstate(all="ignore"):
            return self._call_range(node, args)

    def _call_range(self, node: Call, args: list[Interval]) -> Interval:
        name = node.name
        if name in _OPERATORS and len(args) == 2:
            return self._operator_range(name, *args)
        if name in ("negative", "positive") and len(args) == 1:
            return args[0] if name == "positive" else (-args[0][1], -args[0][0])
        if name in _EXTREMES and len(args) >= 2:
            choose = min if name == "least" else max
            return choose(low for low, _ in args), choose(high for _, high in args)
        if name == "abs" and len(args) == 1:
            low, high = sorted(map(abs, args[0]))
            return (low, high) if args[0][0] >= 0 or args[0][1] <= 0 else (0.0, high)
        if name in _POWERS and len(args) == 2:
            return self._power_range(node, *args)
        name = "ln" if name == "log" and len(args) == 1 else name
        if name in _RISING and len(args) == 1:
            _, least, inclusive = _RISING[name]
            if args[0][0] < least or (args[0][0] == least and not inclusive):
                raise self.refusal(
                    f"{name} needs an argument {'of at least' if inclusive else 'greater than'} {least:g}, but with "
                    f"these bounds it can be {args[0][0]:g}"
                )
            function = getattr(np, {"ln": "log"}.get(name, name))
            return float(function(args[0][0])), float(function(args[0][1]))
        raise self.refusal(f"{name}() with {len(args)} arguments is not supported. Use {_SUPPORTED}")

    def _operator_range(self, name: str, left: Interval, right: Interval) -> Interval:
        if name == "+":
            return left[0] + right[0], left[1] + right[1]
        if name == "-":
            return left[0] - right[1], left[1] - right[0]
        if name == "/" and right[0] <= 0 <= right[1]:
            raise self.refusal(f"a divisor can be 0: with these bounds it is between {right[0]:g} and {right[1]:g}")
        corners = [one * other if name == "*" else one / other for one in left for other in right]
        return min(corners), max(corners)

    def _power_range(self, node: Call, base: Interval, exponent: Interval) -> Interval:
        if exponent[0] != exponent[1]:
            raise self.refusal("the exponent of power must be a constant")
        if base[0] < 0 or (base[0] == 0 and exponent[0] < 0):
            raise self.refusal(
                f"the base of power must not be {'negative' if base[0] < 0 else '0'}, but with these bounds it can be "
                f"{base[0]:g}"
            )
        corners = [float(np.power(edge, exponent[0])) for edge in base]
        return min(corners), max(corners)

    def add(self, node: Syntax, direction: int) -> None:
        """Append the steps of a subexpression. The score rises with it (direction 1) or falls (-1)."""
        if isinstance(node, Literal):
            self._number(self._constant(node))
        elif isinstance(node, ColumnName):
            if direction < 0:
                raise self.refusal(
                    f"the score falls if the value of {node.name!r} rises. Then the score of an object could not be "
                    "bounded before all its values have arrived"
                )
            self.used.add(node.name)
            self.steps.append((attributes.VALUE, self.places[node.name]))
        elif isinstance(node, Call):
            self._add_call(node, direction)

    def mirror(self) -> None:
        """Negate values and the score; what was corrected upwards for an upper bound is corrected downwards."""
        found = []
        for step, argument in self.steps:
            found.append((step, argument))
            if step == attributes.VALUE:
                found.append((attributes.NEGATIVE, 0))
            elif step == attributes.RAISE:
                self.numbers[argument] = -self.numbers[argument]
        self.steps = [*found, (attributes.NEGATIVE, 0)]

    def _add_call(self, node: Call, direction: int) -> None:
        name, args = node.name, node.args
        if name in ("*", "/"):
            self._add_product(node, direction)
        elif name in _OPERATORS:
            self.add(args[0], direction)
            self.add(args[1], -direction if name == "-" else direction)
            self.steps.append((_OPERATORS[name], 0))
        elif name in _EXTREMES:
            self.add(args[0], direction)
            for arg in args[1:]:
                self.add(arg, direction)
                self.steps.append((_EXTREMES[name], 0))
        elif name == "positive":
            self.add(args[0], direction)
        elif name == "negative" or (name == "abs" and self._sign(args[0], direction) < 0):
            self.add(args[0], -direction)
            self.steps.append((attributes.NEGATIVE, 0))
        elif name == "abs":
            self.add(args[0], direction)
        elif name in _POWERS:
            exponent = self.range_of(args[1])[0]
            self.add(args[0], direction if exponent >= 0 else -direction)
            self._number(exponent)
            self._add_inexact(attributes.POWER, direction)
        else:
            step = _RISING["ln" if name == "log" else name][0]
            self.add(args[0], direction)
            self._add_inexact(step, direction)

    def _add_product(self, node: Call, direction: int) -> None:
        left, right = node.args
        self.add(left, direction * self._sign(right, direction, beside=left))
        other = self._sign(left, direction, beside=right)
        self.add(right, direction * other if node.name == "*" else -direction * other)
        self.steps.append((_OPERATORS[node.name], 0))

    def _sign(self, node: Syntax, direction: int, beside: Syntax | None = None) -> int:
        """Return 1 if a subexpression is never negative, -1 if it is never positive."""
        low, high = self.range_of(node)
        if low >= 0 or high <= 0:
            return 1 if low >= 0 else -1
        if beside is not None and not _contains_stream(beside):
            return 1  # a constant factor has no direction
        raise self.refusal(
            f"it is not known whether the score rises or falls, because a factor can be negative and positive: with "
            f"these bounds it is between {low:g} and {high:g}"
        )

    def _add_inexact(self, step: int, direction: int) -> None:
        self.steps.append((step, 0))
        if step != attributes.SQRT:  # correctly rounded
            self.numbers.append(direction * _ERROR)
            self.steps.append((attributes.RAISE, len(self.numbers) - 1))

    def _number(self, number: float) -> None:
        self.numbers.append(number)
        self.steps.append((attributes.NUMBER, len(self.numbers) - 1))

    def _constant(self, node: Literal) -> float:
        try:
            if isinstance(node.value, bool | str) or node.unit:
                raise TypeError
            number = float(node.value)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if not math.isfinite(number):
            raise self.refusal(f"{node.value!r} is not a finite number")
        return number


def _contains_stream(node: Syntax) -> bool:
    if isinstance(node, Call):
        return any(map(_contains_stream, node.args))
    return isinstance(node, ColumnName)
