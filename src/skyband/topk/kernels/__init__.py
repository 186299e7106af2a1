"""Compiled code of this family: arrays in, arrays out, no classes."""
