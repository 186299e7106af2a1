"""Equal scores under ``ties="rank"``: what only this policy can get wrong, and what it has in common with the other."""

from __future__ import annotations

import numpy as np

from skyband.kernels.expand import fill_tied_ranks


def test_equal_keys_share_a_rank_only_where_the_query_says_so_and_never_across_windows():
    counts = np.array([4, 0, 3, 3, 2])
    keys = np.array([9.0, 9.0, 7.0, 7.0] + [7.0, 7.0, 0.0] + [np.inf, np.inf, 1.0] + [0.0, -0.0])
    ranks = np.zeros(keys.size, np.int64)
    fill_tied_ranks(counts, keys, np.array([1, 1, 0, 1, 1]), ranks)
    assert ranks.tolist() == [1, 1, 3, 3] + [1, 2, 3] + [1, 1, 3] + [1, 1]
