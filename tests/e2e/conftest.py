"""Puts the workers' directory on the path and looks after what jobs leave in /dev/shm."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
