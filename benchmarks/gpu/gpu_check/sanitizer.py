"""compute-sanitizer on the small cases: the reduction kernels, and transfers of one PE."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

from gpu_check import records

_FOUND = 86  # the exit code that we ask it for
_LIMIT_S = 30
#: What to look for, in what.
_RUNS = (
    ("memcheck", ["gpu_check.kernels", "--small"]),
    ("racecheck", ["gpu_check.kernels", "--small"]),
    ("memcheck", ["gpu_check.ranks", "--ranks=1", "--gpus=1", "--", "gpu_check.transfers"]),
)


def main() -> None:
    """A check for each run; what the sanitizer cannot do here is left out, not failed."""
    sanitizer = shutil.which("compute-sanitizer")
    if sanitizer is None:
        records.left_out("compute-sanitizer", "it is not on PATH")
        return
    # The checks inside must not count twice.
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
            records.left_out(name, f"it did not come to an end here (exit status {done.returncode}): {last[0][:200]}")
        else:
            records.check(name, done.returncode == 0, summary.strip("= "))


if __name__ == "__main__":
    main()
