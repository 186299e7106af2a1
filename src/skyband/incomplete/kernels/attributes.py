"""The score of an object from its value in each stream. All methods share it, so their results are bit-identical."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from skyband.kernels._jit import inner_kernel, kernel
from skyband.kernels.stream import Floats, Ints

# Codes of aggregates.
SUM = 0
AVG = 1
MIN = 2
MAX = 3
EXPRESSION = 4

# Steps of an expression, which works on a stack of numbers.
VALUE = 0  # push the value of a stream
NUMBER = 1  # push a constant
ADD = 2
SUBTRACT = 3
MULTIPLY = 4
DIVIDE = 5
LEAST = 6
GREATEST = 7
NEGATIVE = 8
SQRT = 9
EXP = 10
LN = 11
LOG10 = 12
LOG1P = 13
POWER = 14
RAISE = 15  # upper bounds only: correct the top of the stack by a relative error


class Scoring(NamedTuple):
    """How values become a score: an aggregate, or the steps of an expression."""

    aggregate: int
    weights: Floats  # per stream; they apply to sums and means only
    steps: Ints  # (steps, 2): the step, and the stream or the place in `numbers`
    numbers: Floats
    stack: Floats


def aggregate_of(aggregate: int, weights: Floats) -> Scoring:
    """Return the scoring of an aggregate."""
    return Scoring(aggregate, weights, np.empty((0, 2), np.int64), np.empty(0), np.empty(0))


@inner_kernel
def score_of(values: Floats, scoring: Scoring, upper: bool) -> float:
    """Return the aggregate of one value per stream, in stream order.

    With `upper`, the result is not below the score of any smaller values, whatever the rounding of the functions in an
    expression. Sums, products, quotients and roots are rounded correctly, so they need no correction.
    """
    aggregate = scoring.aggregate
    if aggregate <= AVG:
        total = 0.0
        for stream in range(values.size):
            total += scoring.weights[stream] * values[stream]
        return total / values.size if aggregate == AVG else total
    if aggregate == EXPRESSION:
        return evaluate(values, scoring, upper)
    best = values[0]
    for stream in range(1, values.size):
        best = min(best, values[stream]) if aggregate == MIN else max(best, values[stream])
    return best


@kernel
def evaluate(values: Floats, scoring: Scoring, upper: bool) -> float:
    """Return the value of an expression."""
    stack = scoring.stack
    top = -1
    for place in range(scoring.steps.shape[0]):
        step = scoring.steps[place, 0]
        argument = scoring.steps[place, 1]
        if step <= NUMBER:
            top += 1
            stack[top] = values[argument] if step == VALUE else scoring.numbers[argument]
        elif step <= GREATEST or step == POWER:
            top -= 1
            stack[top] = _binary(step, stack[top], stack[top + 1])
        elif step == RAISE:
            if upper:
                stack[top] += scoring.numbers[argument] * abs(stack[top])
        else:
            stack[top] = _unary(step, stack[top])
    return stack[0] + 0.0


@kernel
def _binary(step: int, left: float, right: float) -> float:
    if step == ADD:
        return left + right
    if step == SUBTRACT:
        return left - right
    if step == MULTIPLY:
        return left * right
    if step == DIVIDE:
        return left / right
    if step == POWER:
        return left**right
    return min(left, right) if step == LEAST else max(left, right)


@kernel
def _unary(step: int, value: float) -> float:
    if step == NEGATIVE:
        return -value
    if step == SQRT:
        return math.sqrt(value)
    if step == EXP:
        return math.exp(value)
    if step == LN:
        return math.log(value)
    if step == LOG10:
        return math.log10(value)
    return math.log1p(value)
