"""What is a secret, in options and in addresses of servers, and messages without it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

__all__ = [
    "HIDDEN",
    "SHORT",
    "SecretsRule",
    "has_literal_secret",
    "hidden",
    "is_secret",
    "secrets_of",
    "secrets_of_file",
    "secrets_within",
    "shown_address",
    "shown_options",
]

HIDDEN = "***"
SHORT = 3  # letters of a secret that may be anywhere by chance
_SECRET = re.compile(
    r"pass(word|wd|phrase)|pwd|secret|token|credential|authorization|(private|access|api|account|shared|sas).?key|\bsas\b"
    r"|jaas|keystore\.key|_auth$",
    re.IGNORECASE,
)
# Up to the last @: a password that should have been escaped is hidden all the same.
_PASSWORD = re.compile(r"^([A-Za-z][\w+.:-]*://[^:/@?#]*:|(?![^@]*://)[^:/@?#\s=]*:)(.*)(?=@)", re.DOTALL)
_URI = re.compile(r"\s*[A-Za-z][\w+.:-]*://")
_PARAMETER = re.compile(r"(?P<before>[?&])(?P<name>[^=&#?]*)(?P<equals>=)(?P<value>[^&#]*)")
# libpq's `name = value`, or an option of JAAS. A value in quotes may hold anything; any other goes on up to the next
# name that libpq has: a password with a space in it should have had quotes, and is hidden all the same.
_KEYWORD = re.compile(
    r"""(?P<before>^|[\s;])(?P<name>[\w.%+-]+)(?P<equals>\s*=\s*)
        (?P<value>(?:'(?:[^'\\]|\\.)*(?:'|$)|"(?:[^"\\]|\\.)*(?:"|$)|).*?)
        (?=\s+(?:application_name|channel_binding|client_encoding|connect_timeout|dbname|fallback_application_name|gss\w+
            |host|hostaddr|keepalives\w*|krbsrvname|load_balance_hosts|options|passfile|password|port|replication
            |require\w+|requirepeer|service|serviceName|ssl\w+|target_session_attrs|tcp_user_timeout|user|username
            )\s*=|;?\s*$)""",
    re.DOTALL | re.VERBOSE,
)
_PIECES = re.compile(r"""[\s@:/?\#,&;='"\\]+""")
_ADDRESSES = ("url", "dsn", "path", "host", "servers", "master", "checkpoint")


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


def shown_address(url: str) -> str:
    """The address without what opens the door.

    >>> shown_address("postgresql://me:hunter2@db:5432/sales?sslmode=require&password=hunter2")
    'postgresql://me:***@db:5432/sales?sslmode=require&password=***'
    >>> shown_address("host=db user=me password = 'hunter 2' dbname=sales")
    'host=db user=me password = *** dbname=sales'
    """
    # The parameters first: the @ of a password among them is not the one before the host.
    shown = _parameter(url).sub(_without_value, url)
    return _PASSWORD.sub(rf"\1{HIDDEN}", shown)


def _parameter(text: str) -> re.Pattern[str]:
    return _PARAMETER if _URI.match(text) else _KEYWORD


def _without_value(found: re.Match[str]) -> str:
    if not is_secret(unquote(found["name"])):
        return found[0]
    return f"{found['before']}{found['name']}{found['equals']}{HIDDEN}"


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
    texts = [url] if url is not None else []
    found = {str(value) for name, value in options.items() if is_secret(name)}
    texts += [str(value) for value in options.values()]
    found |= {secret for text in texts for secret in secrets_within(text)}
    return {one for secret in found for one in _as_written(secret) if one}


def secrets_within(text: str) -> list[str]:
    """The secrets in a text: the password of an address, and values under names that sound like a secret.

    >>> secrets_within("host=db password='hunter 2' user=me"), secrets_within("redis://:hunter2@host?db=1")
    (["'hunter 2'"], ['hunter2'])
    """
    parameter = _parameter(text)
    found = [one["value"] for one in parameter.finditer(text) if is_secret(unquote(one["name"]))]
    password = _PASSWORD.match(parameter.sub(_without_value, text))
    return [*found, *([password[2]] if password is not None else [])]


def secrets_of_file(raw: Any) -> set[str]:
    """The secrets in the addresses and options of a workload file, wherever they came from.

    >>> sorted(secrets_of_file({"sinks": [{"url": "redis://:hunter2@host"}]}))
    ['hunter2']
    """
    top = raw if isinstance(raw, dict) else {}
    streams, sinks = top.get("streams"), top.get("sinks")
    sections = [top.get("engine"), *(streams.values() if isinstance(streams, dict) else ())]
    found: set[str] = set()
    for section in [*sections, *(sinks if isinstance(sinks, list) else ())]:
        for key, value in section.items() if isinstance(section, dict) else ():
            if isinstance(value, dict) and key in ("options", "settings"):
                found |= secrets_of(None, {str(name): one for name, one in value.items()})
            elif key in _ADDRESSES or is_secret(str(key)):
                for one in value if isinstance(value, list) else [value]:
                    found |= secrets_of(str(one), {key: one} if is_secret(str(key)) else {})
    return found


def _as_written(secret: str) -> set[str]:
    """A secret in the ways it may appear in a message: as it stands, without quotes, decoded, encoded, in pieces.

    A server that takes an address apart at the wrong place shows a piece.
    """
    plain = re.sub(r"\\(.)", r"\1", secret[1:-1]) if secret[:1] in ("'", '"') and secret[:1] == secret[-1:] else secret
    forms = {secret, plain, unquote(secret), unquote(plain), quote(unquote(plain), safe="")}
    pieces = {piece for form in forms for piece in _PIECES.split(form) if len(piece) > SHORT}
    return forms | (pieces if len(secret) > SHORT else set())


def has_literal_secret(written: str) -> bool:
    """Whether an address, as it is written in the file, holds a secret that is not a variable's.

    >>> has_literal_secret("postgresql://me:hunter2@db/sales"), has_literal_secret("postgresql://me:${PW}@db/sales")
    (True, False)
    >>> has_literal_secret("${URL}"), has_literal_secret("${URL:-redis://:hunter2@host}")
    (False, True)
    """
    filled = re.sub(r"\$\{[A-Za-z_]\w*\}", "\0", written)
    filled = re.sub(r"\$\{[A-Za-z_]\w*:-(.*?)\}", r"\1", filled, flags=re.DOTALL)
    return any(part.strip("'\"") and "\0" not in part for part in secrets_within(filled))
