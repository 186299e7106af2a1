"""Ranking objects whose attributes arrive in different streams at different moments, some of them never."""
