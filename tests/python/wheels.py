"""Installs fake wheels of NVIDIA's libraries in the layout of pip."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

SONAME = "libnvshmem_host.so.3"


def install(site: Path, wheel: str, version: str, library: str, content: bytes) -> Path:
    """Installs a wheel with one library, and returns the path of the library."""
    path = site / library
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    metadata = site / f"{wheel.replace('-', '_')}-{version}.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {wheel}\nVersion: {version}\n")
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    (metadata / "RECORD").write_text(f"{library},sha256={digest},{len(content)}\n{metadata.name}/METADATA,,\n")
    return path


def install_nvshmem(site: Path, cuda: int, content: bytes = b"library") -> Path:
    return install(site, f"nvidia-nvshmem-cu{cuda}", "3.8.0", f"nvidia/nvshmem/lib/{SONAME}", content)
