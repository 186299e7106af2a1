"""Static checks of expressions: their columns, allowed functions, comments, and access to anything outside the row
(tables, files, Java).
"""

from __future__ import annotations

import re

from skyband.sql.lexer import Token, parser, raw_tokens, tokenize

__all__ = ["FUNCTIONS", "MOMENTS", "beyond_the_row", "columns_in", "comment_in"]

_MARKS = re.compile(r"--|/\*|\*/|#")  # '#' is a comment for sqlglot, but not for Spark
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`")
_UNSURE = re.compile(r"\\|\$|[rR]['\"]")  # then the end of a quote depends on escapes, tags or settings

_CALLS_JAVA = {"REFLECT", "TRY_REFLECT", "JAVA_METHOD"}
_BY_ANY_NAME = {"IDENTIFIER"}  # IDENTIFIER('ref' || 'lect')(…) calls a function whose name is not in the text
_BEGINS_A_QUERY = {"FROM", "TABLE", "VALUES", "WITH"}  # after a bracket; elsewhere FROM belongs to EXTRACT
_OF_QUERIES = {"SELECT", "USING"}


def beyond_the_row(expression: str) -> str | None:
    """Return the first word of the expression that reads anything but the row; None if there is none.

    >>> beyond_the_row("price * extract(HOUR FROM at)"), beyond_the_row("reflect")
    (None, None)
    >>> beyond_the_row("java_method('java.lang.System', 'exit')"), beyond_the_row("(SELECT 1 FROM text.`/etc/passwd`)")
    ('java_method', 'SELECT')
    """
    tokens = tokenize(expression)
    for at, token in enumerate(tokens):
        if token.keyword in _OF_QUERIES:
            return token.text
        if token.keyword in _BEGINS_A_QUERY and at and tokens[at - 1].symbol == "(":
            return token.text
        is_called = at + 1 < len(tokens) and tokens[at + 1].symbol == "("
        if is_called and _called(token) in _CALLS_JAVA | _BY_ANY_NAME:
            return token.text
    return None


def _called(token: Token) -> str:
    """Return the name of a function in capitals, without backticks."""
    return token.text.strip("`").upper() if token.kind in ("word", "name") else ""


def comment_in(text: str) -> str | None:
    r"""Return the first comment mark outside quotes; None if there is none.

    If the end of a quote is not clear (escapes, raw texts), marks inside quotes are returned, too.

    >>> comment_in("price -- cheap"), comment_in("name = 'a--b'"), comment_in(r"name = 'a\'--b'")
    ('--', None, '--')
    """
    found = _MARKS.search(text if _UNSURE.search(text) else _QUOTED.sub("''", text))
    return None if found is None else found[0]


# Words that are functions without brackets or units of time in Spark, unless a column has the name.
_NO_COLUMNS = """
    current_catalog current_database current_date current_schema current_time current_timestamp current_timezone
    current_user grouping__id inf infinity localtime localtimestamp nan now session_user user
    day dayofweek dayofyear days dow doy epoch hour hours isodow isoyear microsecond microseconds millisecond
    milliseconds minute minutes month months quarter quarters second seconds week weeks year yearofweek years
""".split()  # noqa: SIM905 - a word list reads better as words


def columns_in(expression: str) -> list[str]:
    """Return the distinct columns of an expression; for a field, its column. Empty if they cannot be determined.

    >>> columns_in("price * `how many` + point.x"), columns_in("transform(prices, x -> x + fee)")
    (['price', 'how many', 'point'], ['prices', 'fee'])
    """
    from sqlglot import exp

    try:
        found = parser().parse_into(exp.Condition, raw_tokens(expression), expression)
        if len(found) != 1 or found[0] is None or found[0].find(exp.Query, exp.Table, exp.Command, exp.Window):
            return []
        roots = [column.parts[0] for column in found[0].find_all(exp.Column, bfs=False)]
    except Exception:  # Spark may accept what this parser does not
        return []
    names = [root.name for root in roots if isinstance(root, exp.Identifier)]
    return [name for name in dict.fromkeys(names) if name.lower() not in _NO_COLUMNS]


# The functions that an untrusted expression may call: each only computes a value from a row.
# Excluded on purpose: functions that call Java (reflect), read files or return their names (input_file_name,
# from_protobuf), return session or user information (current_user, version), are not deterministic (rand, uuid), or
# need several rows (sum, rank, explode). A function that Spark adds later is rejected until it is listed here.
_NUMBERS = """
    % * + - / abs acos acosh asin asinh atan atan2 atanh bin bround cbrt ceil ceiling conv cos cosh cot csc degrees
    div e exp expm1 factorial floor greatest hex hypot least ln log log10 log1p log2 mod negative pi pmod positive
    pow power radians rint round sec sign signum sin sinh sqrt tan tanh try_add try_divide try_mod try_multiply
    try_subtract unhex width_bucket & | ^ ~ << >> >>> bit_count bit_get getbit shiftleft shiftright
    shiftrightunsigned vector_cosine_similarity vector_inner_product vector_l2_distance vector_norm vector_normalize
"""
_CONDITIONS = """
    ! < <= <=> = == > >= and or not in between coalesce equal_null if ifnull ilike isnan isnotnull isnull like nanvl
    nullif nullifzero nvl nvl2 regexp regexp_like rlike when zeroifnull assert_true raise_error typeof
"""
_CASTS = """
    bigint binary boolean cast date decimal double float int smallint string time timestamp tinyint
"""
_TEXTS = """
    ascii base64 bit_length btrim char char_length character_length chr collate collation concat concat_ws contains
    crc32 decode elt encode endswith find_in_set format_number format_string from_base32 hash initcap instr
    is_valid_utf8 jaro_winkler_similarity lcase left len length levenshtein locate lower lpad ltrim luhn_check
    make_valid_utf8 mask md5 octet_length overlay parse_url position printf quote regexp_count regexp_extract
    regexp_extract_all regexp_instr regexp_replace regexp_substr repeat replace reverse right rpad rtrim sentences
    sha sha1 sha2 soundex space split split_part startswith substr substring substring_index to_base32 to_binary
    to_char to_number to_varchar translate trim try_parse_url try_to_binary try_to_number try_url_decode
    try_validate_utf8 ucase unbase64 upper url_decode url_encode validate_utf8 xxhash64
"""
_TIMES = """
    add_months convert_timezone curdate current_date current_time current_timestamp date_add date_diff date_format
    date_from_unix_date date_part date_sub date_trunc dateadd datediff datepart day dayname dayofmonth dayofweek
    dayofyear extract from_unixtime from_utc_timestamp hour last_day localtime localtimestamp make_date
    make_dt_interval make_interval make_time make_timestamp make_timestamp_ltz make_timestamp_ntz make_ym_interval
    minute month monthname months_between next_day now quarter second time_bucket time_diff time_from_micros
    time_from_millis time_from_seconds time_to_micros time_to_millis time_to_seconds time_trunc timestamp_micros
    timestamp_millis timestamp_nanos timestamp_seconds to_date to_time to_timestamp to_timestamp_ltz
    to_timestamp_ntz to_unix_timestamp to_utc_timestamp trunc try_make_interval try_make_timestamp
    try_make_timestamp_ltz try_make_timestamp_ntz try_to_date try_to_time try_to_timestamp unix_date unix_micros
    unix_millis unix_nanos unix_seconds unix_timestamp weekday weekofyear year
"""
_PARTS = """
    aggregate array array_append array_compact array_contains array_distinct array_except array_insert
    array_intersect array_join array_max array_min array_position array_prepend array_remove array_repeat array_size
    array_sort array_union arrays_overlap arrays_zip cardinality element_at exists filter flatten forall from_json
    get get_json_object is_variant_null json_array_length json_object_keys map map_concat map_contains_key
    map_entries map_filter map_from_arrays map_from_entries map_keys map_values map_zip_with named_struct parse_json
    reduce schema_of_json sequence size slice sort_array str_to_map struct to_json transform transform_keys
    transform_values try_element_at try_parse_json try_variant_get variant_get zip_with
"""
FUNCTIONS = frozenset(" ".join((_NUMBERS, _CONDITIONS, _CASTS, _TEXTS, _TIMES, _PARTS)).split())
MOMENTS = frozenset({"current_date", "current_time", "current_timestamp", "localtimestamp"})  # called without brackets
