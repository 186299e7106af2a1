"""Random JSON objects as text, usual and odd, whole and damaged."""

from __future__ import annotations

import random

SCHEMA = {
    "t": "tinyint",
    "h": "smallint",
    "i": "int",
    "l": "bigint",
    "d": "double",
    "b": "boolean",
    "s": "string",
    "ts": "timestamp",
    "tn": "timestamp_ntz",
    "dt": "date",
    "größe": "double",
}
_INTEGERS = (
    "0 -0 1 -1 127 128 -128 255 32767 -32768 32768 2147483647 -2147483648 2147483648 9007199254740993 00 01 -01 +1"
)
_INTEGERS += " 9223372036854775807 -9223372036854775808 9223372036854775808 18446744073709551616 99999999999999999999"
_DOUBLES = (
    "0.0 -0.0 0.1 1.5e3 1E5 1e+5 1e-5 1e22 1e23 123456789012345678 0.30000000000000004 1.7976931348623157e308 1e400"
)
_DOUBLES += " 4.9e-324 1e-400 2.2250738585072014e-308 .5 5. 1.e5 1e 1e+ 0x10 1_000 NaN Infinity -Infinity 1.0f 0e0 00.1"
_DOUBLES += " 9007199254740993.0 0.000000000000000000000000000001 123456789.123456789123456789 8.5e-21 1e0005"
_WORDS = "true false null True nul truee None undefined"
_TIMES = [
    "2024-01-01T00:00:00Z", "2024-02-29 23:59:59.999999+05:30", "2023-02-29T00:00:00Z", "2024-01-01T00:00:00",
    "2024-01-01", "2024-13-01T00:00:00Z", "2024-01-01T24:00:00Z", "2024-01-01T00:00:60Z", "2024-01-01T00:00:00.1Z",
    "2024-01-01T00:00:00.123456789Z", "1899-12-31T00:00:00Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z",
    "2024-01-01T00:00:00+18:00", "2024-01-01T00:00:00-17:59", "2024-01-01T00:00:00+00", "2024-1-1T0:0:0Z",
    " 2024-01-01",
    "2024-01-01T00:00:00 Europe/Paris", "2024-01-01T00:00Z", "yesterday", "", "2024-01-01T00:00:00.Z", "1900-02-29",
    "2000-02-29", "2024-01-01T00:00:00.000001", "2024-04-31", "20240101", "2024-01-01T00:00:00z",
]  # fmt: skip
_TEXTS = [
    "",
    "a",
    "é",
    "€",
    "😀",
    "a b",
    "}",
    "{",
    '\\"',
    "\\\\",
    "\\n",
    "\\u00e9",
    "\\ud83d\\ude00",
    "\\ud83d",
    "\\x",
    "\t",
]
_TEXTS += ["\x7f", "\u2028", "null", "1", "NaN", "true", "x" * 50, "\ufeff", "'", "//", "/* */"]
_OTHERS = [
    "{}",
    "[]",
    "[1, 2]",
    '{"a": {"b": [null, "x", {"c": 1.5e3}]}}',
    "[[[]]]",
    '{"a": }',
    "[1,]",
    '{"a" 1}',
    "[" * 70,
]
_OTHERS += ['{"": [{}, [], ""]}', "[" * 30 + "]" * 30, "[1 2]", '{"a":1,}', '["\\u12"]', "[tru]", "[-]", "{'a': 1}"]


def text_of(rng: random.Random) -> bytes:
    """A JSON object, or what looks like one."""
    count = rng.choice([0, 1, 2, 5, 11])
    names = rng.sample(list(SCHEMA), min(count, len(SCHEMA)))
    if rng.random() < 0.3:
        names.insert(rng.randrange(len(names) + 1), rng.choice(["more", "S", "", "t ", "t", "größ", "\\u0074"]))
    space = [
        rng.choice(["", "", "", " ", "\n", "\t", "\r\n", "\x0b", "\xa0"]) if rng.random() < 0.2 else ""
        for _ in range(6)
    ]
    members = [f'{space[0]}"{name}"{space[1]}:{space[2]}{_value(rng, name)}{space[3]}' for name in names]
    raw = (space[4] + "{" + ",".join(members) + "}" + space[5]).encode()
    if rng.random() < 0.15:
        raw = _damaged(rng, raw)
    if rng.random() < 0.02:
        raw += rng.choice([b"x", b"{}", b"}", b",", b"\x00", b"//"])
    return raw


def _value(rng: random.Random, name: str) -> str:
    if rng.random() < 0.85:
        usual = {
            "t": lambda: str(rng.randint(-127, 127)),
            "h": lambda: str(rng.randint(-32767, 32767)),
            "i": lambda: str(rng.randint(-(2**31) + 1, 2**31 - 1)),
            "l": lambda: str(rng.randint(-(2**63) + 1, 2**63 - 1) >> rng.randrange(63)),
            "b": lambda: rng.choice(["true", "false"]),
            "s": lambda: f'"{"".join(rng.choices("abcé€😀 {}[]:,", k=rng.randrange(12)))}"',
            "ts": lambda: f'"{_time(rng)}{rng.choice(["", "Z", "+01:00", "-11:45"])}"',
            "tn": lambda: f'"{_time(rng)}"',
            "dt": lambda: f'"{_time(rng)[:10]}"',
        }
        return usual[name]() if name in usual else _double(rng)
    return rng.choice(
        [
            rng.choice(_INTEGERS.split()),
            rng.choice(_DOUBLES.split()),
            rng.choice(_WORDS.split()),
            rng.choice(_OTHERS),
            f'"{rng.choice(_TEXTS)}"',
            f'"{rng.choice(_TIMES)}"',
            f'"{rng.choice(_INTEGERS.split())}"',
        ]
    )


def _double(rng: random.Random) -> str:
    number = rng.choice([rng.random, lambda: rng.lognormvariate(3, 1), lambda: rng.uniform(-1e9, 1e9)])()
    number *= 10.0 ** rng.choice([0, 0, 0, -30, 30, -300, 280, -8, 15])
    shown = [repr(number), f"{number:.2f}", f"{number:.15e}", f"{number:.17g}", f"{number:.3g}"]
    return rng.choice(shown)


def _time(rng: random.Random) -> str:
    day = f"{rng.randint(1900, 2100)}-{rng.randint(1, 12):02}-{rng.randint(1, 31):02}"
    clock = f"{rng.randint(0, 23):02}:{rng.randint(0, 59):02}:{rng.randint(0, 59):02}"
    digits = rng.choice([0, 0, 3, 6, 1])
    fraction = "." + "".join(rng.choices("0123456789", k=digits)) if digits else ""
    return f"{day}{rng.choice('T ')}{clock}{fraction}"


def _damaged(rng: random.Random, raw: bytes) -> bytes:
    at = rng.randrange(len(raw))
    how = rng.randrange(4)
    if how == 0:
        return raw[:at]
    if how == 1:
        return raw[:at] + raw[at + 1 :]
    if how == 2:
        return raw[:at] + bytes([rng.randrange(256)]) + raw[at + 1 :]
    return raw[:at] + rng.choice([b",", b'"', b"{", b"}", b" ", b"0", b"\\", b"\xc3", b"\xed\xa0\x80"]) + raw[at:]
