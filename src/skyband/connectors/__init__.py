"""Sources of rows and sinks of answers: files, Kafka, PostgreSQL, Redis."""
