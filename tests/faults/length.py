"""How long the suite may take: by default as short as it can, with SKYBAND_FAULTS_MINUTES so long."""

from __future__ import annotations

import os

MINUTES = int(os.environ["SKYBAND_FAULTS_MINUTES"]) if "SKYBAND_FAULTS_MINUTES" in os.environ else None
