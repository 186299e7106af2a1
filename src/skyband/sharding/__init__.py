"""Independent shards of a workload: their state, how rows reach them, and their answers. Without Spark."""
