"""Equal scores under ``ties="rank"``: what only this policy can get wrong, and what it has in common with the other."""

from __future__ import annotations

import numpy as np

from skyband.kernels.expand import fill_tied_ranks


def test_equal_keys_share_a_rank_only_where_the_query_says_so_and_never_across_windows():
    windows = [  # tied, keys, ranks
        (1, [9.0, 9.0, 7.0, 7.0], [1, 1, 3, 3]),
        (1, [], []),
        (0, [7.0, 7.0, 0.0], [1, 2, 3]),
        (1, [np.inf, np.inf, 1.0], [1, 1, 3]),
        (1, [1.0, 0.0, -0.0], [1, 2, 2]),
    ]
    tied, keys, wanted = zip(*windows, strict=True)
    ranks = np.zeros(sum(map(len, keys)), np.int64)
    fill_tied_ranks(np.array([len(one) for one in keys]), np.concatenate(keys), np.array(tied), ranks)
    assert ranks.tolist() == [rank for one in wanted for rank in one]
