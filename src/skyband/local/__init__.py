"""Workloads over data frames in this process: expressions on Arrow, then the same reducers and shards as on Spark."""
