"""Snapshots with forged contents and a correct checksum, in a process of their own.

``python -m tests.forged NAMES SEED COUNT push`` changes values of a monitor's snapshot at random, resumes it and pushes
the rest of the stream. Each case runs in a forked process, so that one that crashes or hangs is reported as such.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections import Counter
from random import Random
from typing import Any

import numpy as np

import skyband as sb
from skyband.snapshot import decode, encode
from tests.golden_states import FOLDER, ROWS, monitors, read

LONGEST = 20.0  # seconds of CPU time of a case
NUMBERS = [0, 1, -1, 2, 3, 7, 100, 2**31 - 1, -(2**31), 2**62, -(2**63), 2**63 - 1]


def forged(values: dict[str, Any], random: Random) -> None:
    """Change one to three values in place."""
    for _ in range(random.choice([1, 1, 2, 3])):
        holder, key = random.choice(list(_places(values)))
        holder[key] = _other(holder[key], random)


def _places(value: Any) -> Any:
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in items:
        yield value, key
        if isinstance(inner, dict | list):
            yield from _places(inner)


def _other(value: Any, random: Random) -> Any:
    if isinstance(value, np.ndarray) and value.size and random.random() < 0.85:
        found = value.copy()
        at = random.randrange(found.size)
        number = random.choice([*NUMBERS, int(np.nan_to_num(found.flat[at])) + random.choice([-1, 1])])
        with np.errstate(all="ignore"):
            found.flat[at] = np.array(number % 2**64, np.uint64).astype(found.dtype)
        return found
    if isinstance(value, np.ndarray):
        return random.choice([value[:-1], value[::2], np.concatenate([value, value]), value.astype(np.float32), []])
    if isinstance(value, bool) or value is None:
        return random.choice([True, False, None, 5])
    if isinstance(value, int):
        return random.choice([*NUMBERS, value + 1, value - 1])
    if isinstance(value, bytes):
        at = random.randrange(len(value) + 1)
        return random.choice([value[:at], value[:at] + bytes([random.randrange(256)]) + value[at + 1 :]])
    return random.choice([None, [], {}, "x", 5, -1.5])


def outcome(name: str, blob: bytes, *, push: bool) -> str:
    """Resume a snapshot, push the rest of the stream, and say how that ended."""
    watched = monitors()[name]
    try:
        monitor = watched.resume(blob)
    except sb.SkybandError:
        return "rejected"
    if push:
        try:
            watched.push(monitor, slice(ROWS // 2, ROWS))
            monitor.finish()
            monitor.answers()
            monitor.snapshot()
        except Exception as error:
            return f"stopped: {type(error).__name__}"
    return "accepted"


def main(name: str, seed: int, count: int, *, push: bool) -> dict[str, int]:
    """Run some cases, each in a forked process; return how often each outcome occurred."""
    blob, random, found = read(FOLDER / f"monitor_{name}.snapshot.gz"), Random(f"{name}{seed}"), Counter[str]()
    outcome(name, blob, push=push)  # compiles what is needed, before the forks
    for case in range(count):
        values = decode(blob)
        forged(values, random)
        try:
            changed = encode(values)
        except (TypeError, ValueError):
            continue
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            signal.setitimer(signal.ITIMER_PROF, LONGEST)  # of CPU time, so that a busy machine does not matter
            signal.alarm(600)  # for a process that waits
            os.write(writer, outcome(name, changed, push=push).encode())
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader, "rb") as said:
            text = said.read().decode()
        _, status = os.waitpid(child, 0)
        if not text:
            killed = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
            text = "hangs" if killed in (signal.SIGPROF, signal.SIGALRM) else f"crashed: signal {killed} in case {case}"
        found[text] += 1
    return dict(found)


if __name__ == "__main__":
    total = Counter[str]()
    for one in sys.argv[1].split(","):
        total.update(main(one, int(sys.argv[2]), int(sys.argv[3]), push=sys.argv[4:] == ["push"]))
    sys.stdout.write(json.dumps(total))
