"""A question in a few words, for the head of its answer."""

from __future__ import annotations

from skyband.aggregate.query import AggregateTopK
from skyband.incomplete.query import IncompleteTopK
from skyband.queries import Query
from skyband.topk.query import TopK
from skyband.uncertain.query import UncertainTopK

__all__ = ["asked", "is_turned"]

_LIKELIEST = {
    "pk-topk": "the {k} likeliest to be among the {k} best",
    "global-topk": "the {k} likeliest to be among the {k} best",
    "pt-k": "all that are among the {k} best with a probability of at least {threshold}",
    "u-kranks": "the likeliest for each of the first {k} ranks",
    "u-topk": "the likeliest list of the {k} best",
    "expected-rank": "the {k} of the lowest expected rank",
}


def asked(query: Query) -> str:
    """What a query asks, window and all.

    >>> asked(TopK(k=10, size="1 hour", slide="5 minutes", partition_by="symbol"))
    'the 10 best of 1 hour, every 5 minutes, for each symbol'
    >>> asked(UncertainTopK(k=3, size="20 minutes", every="2 minutes"))
    'the 3 likeliest to be among the 3 best of 20 minutes, at least every 2 minutes'
    >>> asked(UncertainTopK(k=2, size="1 hour", stream="ship"))
    'the 2 values of ship expected to have most of the 2 best of 1 hour, at least every 1 hour'
    """
    fields = query.to_dict()
    least = "at least " if isinstance(query, UncertainTopK) else ""
    every = fields["slide"] if "slide" in fields else fields["every"]
    each = f", for each {', '.join(query.groups)}" if query.groups else ""
    return f"{_ranked(query)} of {_length(fields['size'])}, {least}every {_length(every)}{each}"


def is_turned(query: Query) -> bool:
    """Whether lower scores are better."""
    return isinstance(query, TopK) and query.order == "asc"


def _ranked(query: Query) -> str:
    if isinstance(query, AggregateTopK):
        value = "" if query.value is None or query.aggregate == "count" else f" of {query.value}"
        return f"the {query.k} values of {query.key} with the highest {query.aggregate}{value}"
    if isinstance(query, IncompleteTopK):
        return f"the {query.k} best values of {query.object}"
    if isinstance(query, UncertainTopK) and query.stream is not None:
        return f"the {query.k} values of {query.stream} expected to have most of the {query.k} best"
    if isinstance(query, UncertainTopK):
        return _LIKELIEST[query.semantics].format(k=query.k, threshold=query.threshold)
    return f"the {query.k} {'lowest' if is_turned(query) else 'best'}"


def _length(extent: str | int) -> str:
    return extent if isinstance(extent, str) else f"{extent:,} rows"
