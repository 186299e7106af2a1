"""The ranked list against a sorted Python list: order, links in both directions, and the index of anchors."""

from __future__ import annotations

import random

import numpy as np
import pytest

from skyband.kernels import ranked_list
from skyband.kernels._jit import kernel
from skyband.kernels.ranked_list import BEFORE, FREE, HEAD, LENGTH, NEXT, PAGES
from skyband.kernels.skiplist import empty_list
from skyband.kernels.skiplist import insert as insert_in_skip_list
from skyband.kernels.skiplist import remove as remove_from_skip_list


@kernel
def insert(chain, key, position, id_):
    return ranked_list.insert(chain, key, position, id_)


@kernel
def remove(chain, slot):
    ranked_list.remove(chain, slot)


def check(chain, wanted):
    """The list is `wanted`, (key, position, id, slot) best first, and its index and links agree with it."""
    slots = ranked_list.slots_in_order(chain)
    assert slots == [slot for *_, slot in wanted]
    assert chain.registers[LENGTH] == len(wanted)
    for before, slot in zip([HEAD, *slots], [*slots, HEAD], strict=True):
        assert (chain.around[before, NEXT], chain.around[slot, BEFORE]) == (slot, before)
    assert [tuple(column[slot] for column in chain[:3]) for slot in slots] == [row[:3] for row in wanted]
    pages = chain.order[: chain.registers[PAGES]]
    assert sorted(chain.order.tolist()) == list(range(chain.order.size))
    anchors = [int(slot) for page in pages for slot in chain.anchors[page, : chain.sizes[page]]]
    assert all(chain.sizes[page] > 0 for page in pages)
    places = [slots.index(slot) for slot in anchors]
    assert places == sorted(set(places)), "anchors are in the order of the list"
    assert set(anchors) == {slot for slot in slots if chain.is_anchor[slot]}
    assert [chain.keys[slot] for slot in anchors] == [
        key for page in pages for key in chain.anchor_keys[page, : chain.sizes[page]].tolist()
    ]
    return len(anchors)


@pytest.mark.parametrize("values", [3, 40, 10_000])
@pytest.mark.parametrize("seed", range(3))
def test_insertions_and_removals_in_any_order(values, seed):
    draw, chain, held, most = random.Random(seed), ranked_list.empty_ranked_list(), [], 0
    for step in range(1_500):
        share = 0.75 if step % 600 < 350 else 0.3  # it grows, then shrinks
        if not held or draw.random() < share:
            if chain.registers[FREE] == 0:
                chain = ranked_list.with_more_slots(chain)
            row = (float(draw.randrange(values)), draw.randrange(4), draw.randrange(4))
            slot = int(insert(chain, *row))
            # An object equal to others in all three is in front of them.
            place = next((i for i, other in enumerate(held) if other[:3] <= row), len(held))
            held.insert(place, (*row, slot))
        else:
            remove(chain, held.pop(draw.randrange(len(held)))[3])
        if step % 50 == 0:
            most = max(most, check(chain, held))
    check(chain, held)
    assert most > 5, "a list of this length has anchors"
    for *_, slot in held:
        remove(chain, slot)
    check(chain, [])


@pytest.mark.parametrize("count", [0, 1, 11, 12, 200, 1_500])
def test_a_list_linked_at_once_can_be_changed_like_any_other(count):
    draw, chain, held = random.Random(count), ranked_list.empty_ranked_list(), []
    for number in range(1_500):
        if chain.registers[FREE] == 0:
            chain = ranked_list.with_more_slots(chain)
        row = (draw.random(), number, number)
        held.append((*row, int(insert(chain, *row))))
    chain = ranked_list.with_more_slots(chain)
    draw.shuffle(held)
    for *_, slot in held[count:]:  # freed as they are, anchors or not
        chain.around[slot, NEXT], chain.registers[FREE] = chain.registers[FREE], slot
    held = sorted(held[:count], reverse=True)
    ranked_list.relink(chain, np.array([slot for *_, slot in held], np.int32), count)
    check(chain, held)
    for number in range(1_500, 1_700):
        row = (draw.random(), number, number)
        held.append((*row, int(insert(chain, *row))))
    held.sort(reverse=True)
    check(chain, held)
    for *_, slot in held:
        remove(chain, slot)
    check(chain, [])


@pytest.mark.parametrize("order", [1, -1])
def test_sorted_insertions_need_few_anchors_and_no_long_walks(order):
    chain = ranked_list.empty_ranked_list(5_000)
    for i in range(4_000):
        insert(chain, float(order * i), 0, i)
    anchors = int(chain.is_anchor.sum())
    if order < 0:  # each new object is the worst: the walk from the last anchor is as long as an anchor allows
        assert 4_000 / 13 - 1 <= anchors <= 4_000 / 12
    else:
        assert anchors == 0, "each new object is the best, found at once"


def test_a_list_without_a_free_page_stays_right():
    chain = ranked_list.empty_ranked_list(4_000)
    chain = chain._replace(**{name: getattr(chain, name)[:2] for name in ("anchor_keys", "anchors", "sizes", "order")})
    values = random.Random(5).sample(range(100_000), 3_000)
    for id_, value in enumerate(values):
        insert(chain, float(value), 0, id_)
    slots = ranked_list.slots_in_order(chain)
    assert chain.keys[slots].tolist() == sorted(map(float, values), reverse=True)
    assert chain.registers[PAGES] == 2


def test_a_stored_skip_list_is_converted():
    draw, old = random.Random(2), empty_list(64)
    slots = [int(insert_in_skip_list(old, float(draw.randrange(9)), draw.randrange(3), id_)) for id_ in range(60)]
    for slot in draw.sample(slots, 25):
        remove_from_skip_list(old, slot)
        slots.remove(slot)
    chain = ranked_list.from_skip_list(old._asdict())
    rows = sorted(((float(old.keys[s]), int(old.positions[s]), int(old.ids[s]), s) for s in slots), reverse=True)
    check(chain, rows)
    for id_ in range(100, 128):  # the free slots can all be used
        insert(chain, 4.0, 1, id_)
    assert chain.registers[FREE] == 0
    assert chain.registers[LENGTH] == 63
    assert np.unique(ranked_list.slots_in_order(chain)).size == 63
