"""Runs compute-sanitizer on small cases: the reduction kernels, and transfers of one PE."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

from gpu_check import records

_FOUND = 86  # the requested exit code for errors
_LIMIT_S = 30
#: The sanitizer's tool, and the module of the check.
_RUNS = (
    ("memcheck", ["gpu_check.kernels", "--small"]),
    ("racecheck", ["gpu_check.kernels", "--small"]),
    ("memcheck", ["gpu_check.ranks", "--ranks=1", "--gpus=1", "--", "gpu_check.transfers"]),
)


def main() -> None:
    """Makes a check for each run. Runs that the sanitizer cannot do here are left out."""
    sanitizer = shutil.which("compute-sanitizer")
    if sanitizer is None:
        records.left_out("compute-sanitizer", "it is not on PATH")
        return
    # The checks of the module itself must not count twice.
    environment = {**os.environ, records.VARIABLE: os.devnull}
    for tool, module in _RUNS:
        name = f"{tool}: {module[-1] if '--' in module else module[0]}"
        command = [sanitizer, f"--tool={tool}", "--target-processes=all", f"--error-exitcode={_FOUND}"]
        command += [sys.executable, "-m", *module]
        print("+", *command, flush=True)
        try:
            done = subprocess.run(
                command, env=environment, timeout=_LIMIT_S, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            )
        except subprocess.TimeoutExpired:
            records.left_out(name, f"not done after {_LIMIT_S} s")
            continue
        print(done.stdout, flush=True)
        summary = next((line for line in done.stdout.splitlines() if "SUMMARY" in line), "")
        if done.returncode not in (0, _FOUND) or not summary:
            last = done.stdout.strip().splitlines()[-1:] or ["no output"]
            records.left_out(name, f"it did not finish here (exit status {done.returncode}): {last[0][:200]}")
        else:
            records.check(name, done.returncode == 0, summary.strip("= "))


if __name__ == "__main__":
    main()
