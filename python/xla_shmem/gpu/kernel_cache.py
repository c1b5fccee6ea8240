"""Keeps compiled device code for later jobs: NVRTC takes 3 to 5 s for it in each process (on the host of an H200).

A file in `$XDG_CACHE_HOME/xla-shmem`, by default `~/.cache/xla-shmem`, for each source, GPU and NVRTC. A folder that is
not this user's alone is not used, and a folder that cannot be written costs only the time.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

_DIGEST_BYTES = hashlib.sha256().digest_size


def cache_folder(environ: Mapping[str, str]) -> Path | None:
    """Returns the folder, made if it is missing; None if there is none that only this user can write."""
    base = environ.get("XDG_CACHE_HOME", "")
    home = environ.get("HOME", "")
    if not base.startswith("/"):  # the XDG Base Directory Specification ignores relative paths
        if not home.startswith("/"):
            return None
        base = f"{home}/.cache"
    folder = Path(base, "xla-shmem")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.lstat()
    except OSError:
        return None
    writable_by_others = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return folder if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not writable_by_others else None


def image_name(source: str, compute_capability: tuple[int, int], compilers: Sequence[str]) -> str:
    """Returns an image's file name, made from all that the image is; a compiler counts by size and time of change."""
    digest = hashlib.sha256(repr((source, compute_capability)).encode())
    for compiler in compilers:
        with contextlib.suppress(OSError):  # a name that the loader looks up
            found = os.stat(compiler)
            digest.update(repr((os.path.realpath(compiler), found.st_size, found.st_mtime_ns)).encode())
        digest.update(repr(compiler).encode())
    return f"kernels-{digest.hexdigest()[:32]}.bin"


def cached_image(folder: Path | None, name: str, compile_image: Callable[[], bytes]) -> bytes:
    """Returns the image of this name in the folder; compiles and keeps it if it is not there or damaged."""
    if folder is None:
        return compile_image()
    path = folder / name
    with contextlib.suppress(OSError):
        content = path.read_bytes()
        digest, image = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
        if hashlib.sha256(image).digest() == digest:
            return image
    image = compile_image()
    with contextlib.suppress(OSError), tempfile.NamedTemporaryFile(dir=folder, prefix=name, delete=False) as file:
        try:
            file.write(hashlib.sha256(image).digest() + image)
            file.close()
            os.replace(file.name, path)
        except OSError:
            os.unlink(file.name)
    return image
