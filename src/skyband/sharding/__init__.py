"""A workload cut into shards that share nothing: what each holds, how rows reach it, what it answers. No Spark here."""
