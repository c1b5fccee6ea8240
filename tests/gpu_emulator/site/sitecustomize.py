"""Lets JAX start its CUDA client: it looks for a GPU's device file first, and the emulated GPU has none."""

import os

_exists = os.path.exists
os.path.exists = lambda path: path == "/dev/nvidiactl" or _exists(path)
