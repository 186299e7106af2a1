"""Damage to stored files, drawn from a seed."""

from __future__ import annotations

from pathlib import Path

HOW = ("flip", "cut", "delete", "zero", "older")


def damage(path: Path, how: str, random, older: bytes = b"") -> None:
    """Flip a bit of a file, cut it off, delete it, write zeros over a part, or replace it by an older copy."""
    content = bytearray(path.read_bytes())
    if how == "flip" and content:
        content[random.randrange(len(content))] ^= 1 << random.randrange(8)
    elif how == "cut":
        del content[random.randrange(len(content) or 1) :]
    elif how == "zero":
        begin = random.choice([0, random.randrange(len(content) or 1)])
        content[begin:] = bytes(len(content) - begin)
    elif how == "older":
        content[:] = older
    path.unlink() if how == "delete" else path.write_bytes(content)
