"""A campaign of faults: a run of all families on a standalone cluster, hit again and again by a seeded scheduler."""
