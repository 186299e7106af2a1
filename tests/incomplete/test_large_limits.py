"""A k and a number of occurrences far beyond the objects of a stream reserve no memory and raise no foreign error."""

from __future__ import annotations

import subprocess
import sys

import pytest

import skyband as sb

# A process of its own, since a limit of memory is for a whole process.
PROGRAM = """
import resource, sys
import numpy as np, psutil
import skyband as sb

rows = np.arange(40)
tuples = (None, rows % 7, rows % 2, rows % 5 / 5)

def answered(k):
    query = sb.IncompleteTopK(k=k, size=20, every=5, streams=[0, 1], method=sys.argv[1])
    return sb.incomplete.replay(query, *tuples).drop_columns("query")

wanted = answered(7)
limit = psutil.Process().memory_info().vms + 300 * 2**20
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
assert wanted.num_rows and answered(10**9).equals(wanted)
"""


@pytest.mark.long
@pytest.mark.parametrize("method", ["exact", "sorted-lists", "approximate", "expected-scores"])
def test_a_k_above_the_number_of_objects_reserves_nothing(method):
    done = subprocess.run([sys.executable, "-c", PROGRAM, method], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("occurrences", [2**31, 2**64, 0, -1, 1.5, True])
def test_occurrences_beyond_the_limits_are_rejected(occurrences):
    with pytest.raises(sb.InvalidQueryError, match=f"occurrences={occurrences!r} must be an integer between 1 and"):
        sb.IncompleteTopK(k=1, size=10, every=1, streams=[0, 1], occurrences=occurrences)
