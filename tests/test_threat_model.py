"""Each claim of the threat model names a test that exists."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_each_claim_names_a_test():
    page = (ROOT / "docs" / "explanation" / "threat_model.md").read_text()
    claims = [line for line in page.splitlines() if line.startswith("| ") and not line.startswith("| Claim")]
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", page)
    assert len(claims) > 15
    assert all("::test_" in line for line in claims)
    assert [(file, name) for file, name in named if f"def {name}(" not in (ROOT / file).read_text()] == []
