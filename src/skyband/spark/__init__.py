"""Skyband on Spark: the same queries over batch and streaming data frames."""
