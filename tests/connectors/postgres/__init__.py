"""Answers in PostgreSQL, with a real server."""
