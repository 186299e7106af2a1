"""Where rows come from and where answers go: files, Kafka, PostgreSQL, Redis."""
