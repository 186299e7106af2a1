"""What is asked: the families of continuous queries, and what their fields may hold."""

from __future__ import annotations

from skyband.queries.aggregate import AggregateTopK
from skyband.queries.base import Query
from skyband.queries.fields import Axis
from skyband.queries.incomplete import IncompleteTopK
from skyband.queries.topk import Order, Ties, TopK
from skyband.queries.uncertain import UncertainTopK

__all__ = ["AggregateTopK", "Axis", "IncompleteTopK", "Order", "Query", "Ties", "TopK", "UncertainTopK"]
