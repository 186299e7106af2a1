"""What Skyband is measured with: `python -m benchmarks` measures everything and rewrites the tables of the docs."""
