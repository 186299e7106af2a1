"""Ranking keys by an aggregate: against brute force, and what the engine promises about its work and state."""
