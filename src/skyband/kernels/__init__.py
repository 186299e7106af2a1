"""Compiled inner loops: flat arrays in, flat arrays out, no classes, nothing of the layers above."""
