"""Changes from one answer to the next, by comparing answers one by one."""

from __future__ import annotations

from tests.sharding import cases


def compared(posed, answers, newest, axis):
    """The changes of one query and group, from its answers by the definitions: [(end, change, rank, old rank, id)].

    An empty window is an answer without rows, as far as time has come.
    """
    boards = {}
    for _, end, rank, id_, _ in answers:
        boards.setdefault(end, {})[id_] = rank
    found, before, end = [], {}, min(boards)
    while end <= max(boards) or (axis == "time" and end <= newest):
        now = boards.get(end, {})
        found += [(end, "left", None, rank, id_) for id_, rank in before.items() if id_ not in now]
        for id_, rank in now.items():
            if id_ not in before:
                found.append((end, "entered", rank, None, id_))
            elif before[id_] != rank:
                found.append((end, "moved", rank, before[id_], id_))
        before = now
        end += posed.asked.slide
    return found


def reported(rows, posed):
    """The same of rows as the library gives them back, by query and group."""
    grouped = {one.name for one in posed if "partition_by" in one.kind}
    found = {}
    for row in rows:
        group = row["g"] if row["query"] in grouped else "-"
        change = (cases.micros(row["window_end"]), row["change"], row["rank"], row["old_rank"], row["id"])
        found.setdefault((row["query"], group), []).append(change)
    return found


def by_order(change):
    return (change[0], change[1] != "left", change[2] or change[3], change[4])
