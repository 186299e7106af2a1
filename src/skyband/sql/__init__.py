"""Queries as SQL in three dialects, parsed into queries and workloads.

`short` parses the short dialect, `cql` the CQL of the papers, and `flink` Flink's Window Top-N. `reader` contains
`skyband.sql`, and `writer` converts queries back to SQL.
"""
