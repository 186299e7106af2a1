"""Ranking keys by an aggregate of their values in a sliding window: the largest totals, counts, maxima, … right now."""
