"""Columns in, tables out: dictionaries of ids, groups and keys, answers on their way, the change feed."""
