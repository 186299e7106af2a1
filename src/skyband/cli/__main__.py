"""`python -m skyband.cli`."""

from __future__ import annotations

from skyband.cli.main import main

main()
