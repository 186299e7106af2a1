"""Spark SQL expressions evaluated on Arrow data, without Spark.

`compile_expression` parses a text such as ``price * size``, checks it against an Arrow schema, and returns an object
that evaluates batches. The meaning is that of Spark 4 in ANSI mode with the session time zone UTC. Expressions outside
the supported list are rejected, so that a result never differs from Spark's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from skyband.expressions.compiler import CompiledExpression, compile_expression
    from skyband.expressions.failures import EvaluationError, InvalidExpressionError

__all__ = ["CompiledExpression", "EvaluationError", "InvalidExpressionError", "compile_expression"]

_PLACES = {
    "compiler": ["CompiledExpression", "compile_expression"],
    "failures": ["EvaluationError", "InvalidExpressionError"],
}
__getattr__, __dir__, _ = lazy_loader.attach(__name__, submod_attrs=_PLACES)
