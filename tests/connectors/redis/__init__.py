"""Answers in sorted sets, with a real server."""
