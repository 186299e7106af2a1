"""Addresses of servers in a workload file: what is a secret in them, and how they are shown without it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from skyband.workfile.environment import HIDDEN, is_secret
from skyband.workfile.paths import absolute

__all__ = ["has_literal_secret", "secrets_of", "shown_address", "shown_options", "with_absolute_files"]

# Up to the last @: a password that should have been escaped is hidden all the same.
_PASSWORD = re.compile(r"^([A-Za-z][\w+.-]*://[^:/@?#]*):(.*)@", re.DOTALL)
_PARAMETER = re.compile(r"([?&])([^=&#]*)=([^&#]*)")
_FILES = {
    *("sslrootcert", "sslcert", "sslkey", "sslcrl", "sslcrldir", "passfile"),  # libpq's
    *("ssl_ca_certs", "ssl_ca_path", "ssl_certfile", "ssl_keyfile"),  # redis-py's
}


def shown_address(url: str) -> str:
    """The address without what opens the door.

    >>> shown_address("postgresql://me:hunter2@db:5432/sales?sslmode=require&password=hunter2")
    'postgresql://me:***@db:5432/sales?sslmode=require&password=***'
    """
    hidden = _PASSWORD.sub(rf"\1:{HIDDEN}@", url)
    return _PARAMETER.sub(lambda one: f"{one[1]}{one[2]}={HIDDEN}" if is_secret(one[2]) else one[0], hidden)


def shown_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options, secret ones hidden.

    >>> shown_options({"sslmode": "require", "password": "hunter2"})
    {'sslmode': 'require', 'password': '***'}
    """
    return {name: HIDDEN if is_secret(name) else value for name, value in options.items()}


def secrets_of(url: str | None, options: Mapping[str, Any]) -> set[str]:
    """The secrets in an address and its options, as they are written and as they are meant.

    >>> sorted(secrets_of("redis://:a%2Fb@host", {"password": "c"}))
    ['a%2Fb', 'a/b', 'c']
    """
    found = {str(value) for name, value in options.items() if is_secret(name)}
    if url is not None:
        found |= {one[3] for one in _PARAMETER.finditer(url) if is_secret(one[2])}
        password = _PASSWORD.match(url)
        if password is not None:
            found.add(password[2])
    return {secret for one in found for secret in (one, unquote(one)) if secret}


def has_literal_secret(written: str) -> bool:
    """Whether an address, as it is written in the file, holds a secret that is not a variable's.

    >>> has_literal_secret("postgresql://me:hunter2@db/sales"), has_literal_secret("postgresql://me:${PW}@db/sales")
    (True, False)
    >>> has_literal_secret("${URL}"), has_literal_secret("${URL:-redis://:hunter2@host}")
    (False, True)
    """
    filled = re.sub(r"\$\{[A-Za-z_]\w*\}", "\0", written)
    filled = re.sub(r"\$\{[A-Za-z_]\w*:-(.*?)\}", r"\1", filled, flags=re.DOTALL)
    password = _PASSWORD.match(filled)
    parts = [password[2]] if password is not None else []
    parts += [one[3] for one in _PARAMETER.finditer(filled) if is_secret(one[2])]
    return any(part and "\0" not in part for part in parts)


def with_absolute_files(options: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The options with paths of certificates and the like, which are relative to the workload file's folder.

    >>> with_absolute_files({"sslmode": "verify-full", "sslrootcert": "ca.pem"}, Path("/work"))
    {'sslmode': 'verify-full', 'sslrootcert': '/work/ca.pem'}
    """
    return {
        # libpq's word for the certificates that the system trusts
        name: absolute(value, folder) if name in _FILES and isinstance(value, str) and value != "system" else value
        for name, value in options.items()
    }
