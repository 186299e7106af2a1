"""What is a secret, and messages without it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

__all__ = ["HIDDEN", "SHORT", "SecretsRule", "hidden", "is_secret"]

HIDDEN = "***"
SHORT = 3  # letters of a secret that may be anywhere by chance
_SECRET = re.compile(
    r"pass(word|wd|phrase)|pwd|secret|token|credential|authorization|(private|access|api|account|shared|sas).?key|\bsas\b"
    r"|jaas|keystore\.key|_auth$",
    re.IGNORECASE,
)


class SecretsRule(NamedTuple):
    """How the secrets of a connector reach it, if not by being written in a workload file."""

    instead: str  # what to do, in a message
    allows_default: bool = False  # whether the default of a variable may be a secret


def is_secret(key: str) -> bool:
    """Whether a key, or a variable's name, sounds like something nobody else should read.

    >>> is_secret("fs.s3a.secret.key"), is_secret("DB_PASSWORD"), is_secret("port")
    (True, True, False)
    """
    return _SECRET.search(key) is not None


def hidden(message: str, secrets: Iterable[str]) -> str:
    """The message without the secrets in it.

    >>> hidden("no login for alice with hunter2", {"hunter2"})
    'no login for alice with ***'
    """
    for secret in sorted(secrets, key=len, reverse=True):
        for shown in {secret, repr(secret)[1:-1]}:
            if len(shown) > SHORT:
                message = message.replace(shown, HIDDEN)
    return message
