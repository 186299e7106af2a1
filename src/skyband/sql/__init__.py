"""Queries as text: three spellings of one question, read into queries and workloads.

`short` reads the short spelling, `cql` the one of the papers, `flink` the one of Flink's Window Top-N; `reader` has
`skyband.sql`, and `writer` the way back.
"""
