"""Compiled kernels of this family: functions on arrays, without classes."""
