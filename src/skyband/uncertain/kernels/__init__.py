"""Compiled kernels of the uncertain family. They take and return arrays only."""
