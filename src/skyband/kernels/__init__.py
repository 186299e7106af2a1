"""Compiled inner loops over flat arrays. They use no classes and do not import the layers above."""
