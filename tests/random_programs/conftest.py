"""Makes the helpers of multi-process jobs importable."""

from __future__ import annotations

import sys
from pathlib import Path

for _folder in ("e2e", "hosts"):
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / _folder))
