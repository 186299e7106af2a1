"""Groups laid end to end along one axis, against groups run one after the other."""

from __future__ import annotations

import numpy as np
import pytest

import skyband as sb
from skyband.topk import window_ranking
from skyband.topk.algorithms import engine_named
from skyband.topk.window_ranking import Lined, rank_rows
from skyband.windows import ALWAYS, AXIS_LIMIT, NEVER
from tests.drive import under_each_policy
from tests.sharding import cases


def lined(random, groups, *, scale=1):
    scores, positions, begins = [], [], [0]
    for _ in range(groups):
        rows = [row for row in cases.draw_rows(random, random.choice([0, 1, 9, 40]), scale=scale) if row[1] is not None]
        scores += [row[1] + 0.0 for row in rows]
        positions += [row[0] for row in rows]
        begins.append(len(scores))
    return Lined(np.array(scores, float), np.array(positions, np.int64), np.array(begins))


def listed(found):
    """{(query, group, end): rows by rank}"""
    begins = np.cumsum(found.counts) - found.counts
    return {
        (int(query), int(group), int(end)): found.ids[begin : begin + count].tolist()
        for query, group, end, begin, count in zip(
            found.queries, found.groups, found.ends, begins, found.counts, strict=True
        )
    }


@under_each_policy
@pytest.mark.parametrize("seed", range(4))
def test_groups_end_to_end_are_groups_in_turn(seed, algorithm, tied):
    random = cases.rng(seed)
    ties = "rank" if tied else "row_number"
    posed = [cases.plain(cases.draw_posed(random, f"q{i}", scale=1)) for i in range(3)]
    queries = tuple(sb.TopK(**{**one.query().to_dict(), "order": "desc", "ties": ties}) for one in posed)
    rows = lined(random, 5)
    middle = int(np.median(rows.positions)) if rows.positions.size else 0
    answered = np.array([ALWAYS if random.random() < 0.3 else middle + random.randint(-9, 9) for _ in range(5)])
    engine = engine_named(algorithm)
    for some in [queries] if engine.shares else [(query,) for query in queries]:
        together, needed = window_ranking._rank_many(engine, some, rows, answered, np.full(5, NEVER))
        in_turn, rest = window_ranking._rank_in_turn(engine, some, rows, answered, np.full(5, NEVER))
        assert listed(together) == listed(in_turn)
        assert needed.size == rest.size == 0


def test_slides_without_a_small_common_multiple(monkeypatch):
    random = cases.rng("primes")
    slides = (999_999_937, 999_999_929, 7)
    queries = [sb.TopK(name=str(s), k=2, size=f"{2 * s} microseconds", slide=f"{s} microseconds") for s in slides]
    rows = lined(random, 3)
    in_turn = []
    taken = window_ranking._rank_in_turn
    monkeypatch.setattr(window_ranking, "_rank_in_turn", lambda *args: in_turn.append(1) or taken(*args))
    assert 3 * int(np.lcm.reduce(slides, dtype=object)) > AXIS_LIMIT // 2, "else this test tests nothing"
    answered, final = np.full(3, ALWAYS), np.full(3, NEVER)
    found = listed(rank_rows(engine_named("panes"), queries, rows, answered, final).windows)
    assert in_turn == [1]
    want = {}
    for number, query in enumerate(queries):
        alone = listed(rank_rows(engine_named("panes"), [query], rows, answered, final).windows)
        want |= {(number, group, end): ids for (_, group, end), ids in alone.items()}
    assert found == want
    assert in_turn == [1]
