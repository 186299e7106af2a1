"""How the faults of a campaign are drawn: the same for the same seed, all kinds, and none twice at one moment."""

from __future__ import annotations

from collections import Counter
from itertools import islice

from tests.faults.campaign.blows import BLOWS, bursts

KINDS = sorted(BLOWS)


def test_a_seed_draws_the_same_faults_again():
    first, again, other = (list(islice(bursts(seed, KINDS), 20)) for seed in (5, 5, 6))
    assert first == again != other


def test_every_kind_is_drawn_and_none_of_a_target_twice_at_once():
    drawn = list(islice(bursts(1, KINDS), 200))
    counts = Counter(one.blow.kind for burst in drawn for moment in burst for one in moment.drawn)
    assert set(counts) == set(KINDS)
    assert min(counts.values()) > 5
    for burst in drawn:
        for moment in burst:
            assert len({one.blow.target for one in moment.drawn}) == len(moment.drawn)


def test_kinds_that_are_not_possible_are_not_drawn():
    kinds = [kind for kind in KINDS if "network" not in kind]
    drawn = list(islice(bursts(2, kinds), 50))
    assert {one.blow.kind for burst in drawn for moment in burst for one in moment.drawn} <= set(kinds)
