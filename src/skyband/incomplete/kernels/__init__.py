"""Compiled kernels of the incomplete family. They take and return arrays only."""
