"""Tests of queries over data frames in process."""
