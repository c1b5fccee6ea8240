"""Measures MaxText's steps on stock JAX and with the flag, in turns.

    .venv-maxtext-highest/bin/python tests/clients/maxtext_times.py [--configs fsdp,tensor] [--rounds 3] [--steps 20]

In each round each mode trains once. Prints, for each mode, the median of all steps of rank 0 but the first three of a
run, in ms, and how many times as fast as stock JAX that is.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path

from client_modes import ALL_OPS, DEFAULT_OPS, STOCK, Mode
from maxtext_configs import BY_NAME, CONFIGS
from maxtext_runs import train

_WARM_UP = 3


def main() -> None:
    """Measures the configs of the command line, and prints a row of a Markdown table for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--configs", default=",".join(config.name for config in CONFIGS), help="names, with commas")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=20)
    arguments = parser.parse_args()
    print("| model | ranks | stock ms | default ops ms | all ops ms | default ops | all ops |")
    print("|---|---|---|---|---|---|---|")
    for name in arguments.configs.split(","):
        config = BY_NAME[name]
        modes = [STOCK, DEFAULT_OPS, ALL_OPS] if config.stock else [DEFAULT_OPS, ALL_OPS]
        times: dict[Mode, list[float]] = {mode: [] for mode in modes}
        with tempfile.TemporaryDirectory() as folder:
            for round_number in range(arguments.rounds):
                for mode in modes:
                    output = Path(folder, f"{mode.name}-{round_number}")
                    run = train(config, mode, output, steps=arguments.steps, counts=False)
                    assert run.exit_code == 0, run.output[-4000:]
                    steps = run.metrics[0][_WARM_UP:]
                    times[mode] += [1e3 * step["perf/step_time_seconds"] for step in steps]
        medians = {mode: statistics.median(found) for mode, found in times.items()}
        cells = [f"{medians[mode]:.1f}" if mode in medians else "-" for mode in (STOCK, DEFAULT_OPS, ALL_OPS)]
        for mode in (DEFAULT_OPS, ALL_OPS):
            cells.append(f"{medians[STOCK] / medians[mode]:.2f}" if STOCK in medians else "-")
        print(f"| {name} | {config.ranks} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
