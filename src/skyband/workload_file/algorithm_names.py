"""By which algorithms the queries of a type can be run (`auto` runs all of them), and in how many parts."""

from __future__ import annotations

from skyband.queries.families import FAMILIES

__all__ = ["KNOWN", "WHOLE", "algorithm_for", "plan_for", "types_of"]

WHOLE = tuple(name for name, family in FAMILIES.items() if not family.supports("shards"))  # types in one part
KNOWN = ("auto", *(name for family in FAMILIES.values() for name in family.algorithms()))


def types_of(algorithm: str) -> list[str]:
    """The types of queries that an algorithm is for.

    >>> types_of("mintopk"), types_of("dp")
    (['topk'], ['uncertain'])
    """
    return [kind for kind, family in FAMILIES.items() if algorithm in family.algorithms()]


def algorithm_for(kind: str, algorithm: str) -> str:
    """The algorithm for queries of a type: the file's, if it is for such, and else the best there is.

    >>> algorithm_for("uncertain", "dp"), algorithm_for("topk", "dp")
    ('dp', 'auto')
    """
    return algorithm if kind in types_of(algorithm) else "auto"


def plan_for(kind: str, algorithm: str) -> str | None:
    """The plan that an algorithm names, to be explained; None: queries of this type have none, or nobody named one.

    >>> plan_for("uncertain", "dp"), plan_for("uncertain", "auto"), plan_for("topk", "panes")
    ('dp', None, None)
    """
    return algorithm if FAMILIES[kind].supports("plan") and algorithm != "auto" else None
