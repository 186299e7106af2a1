"""Compiled kernels of the aggregate family. They take and return arrays only."""
