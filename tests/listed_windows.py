"""Random windows that lie on no lattice, as the oracle's plain pairs."""

from __future__ import annotations

from itertools import accumulate, pairwise

from tests.oracle import Asked

KINDS = ("cumulative", "calendar", "overlapping")


def draw_windows(random_, low, high, *, scale=1):
    """Windows over ``[low, high)``, some of them before and after it."""
    return draw_kind(random_, random_.choice(KINDS), low // scale, high // scale, scale)


def draw_kind(random_, kind, low, high, scale=1):
    """Windows of one kind; bounds are multiples of `scale`."""
    low -= random_.randint(-5, 30)
    high = max(low + 5, high + random_.randint(-10, 40))
    if kind == "cumulative":
        step = random_.randint(1, 6)
        day = step * random_.randint(1, 8)
        found = [(start, end) for start in range(low, high, day) for end in range(start + step, start + day + 1, step)]
    elif kind == "calendar":
        # Lengths differ, and now and then nothing covers a stretch.
        bounds = list(accumulate([low, *(random_.randint(1, 15) for _ in range(max(2, (high - low) // 8)))]))
        pairs = pairwise(bounds)
        found = [pair for pair in pairs if random_.random() < 0.8]
    else:
        ends = sorted({random_.randint(low, high) for _ in range(max(2, (high - low) // 4))})
        starts = sorted(end - random_.randint(1, 20) for end in ends)
        found = [(start, end) for start, end in zip(starts, ends, strict=True) if start < end]
    found = found or [(low, low + 5)]
    return tuple((start * scale, end * scale) for start, end in found)


def draw_listed(random_, low, high, *, scale=1, ties=False):
    """A query over such windows."""
    listed = draw_windows(random_, low, high, scale=scale)
    return Asked(
        k=random_.choice([1, 2, 3, 5]),
        size=max(end - start for start, end in listed),
        slide=1,
        full_only=random_.random() < 0.3,
        ascending=random_.random() < 0.3,
        tied=ties and random_.random() < 0.5,
        listed=listed,
    )
