"""Benchmarks of Skyband. `python -m benchmarks` runs all of them and rewrites the tables and reports."""
