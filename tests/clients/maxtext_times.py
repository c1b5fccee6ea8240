"""Measures MaxText's steps on stock JAX and with the flag, in turns.

    .venv-maxtext-highest/bin/python tests/clients/maxtext_times.py [--configs fsdp,tensor] [--rounds 3] [--steps 20]

The models must have the same number of ranks. In each round each mode trains each model once. MaxText does not wait
for a step, so what counts is the mean of a training, without its first three steps. Prints, for each mode, the median
of these means on rank 0, in ms, and how many times as fast as stock JAX that is.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections import defaultdict
from pathlib import Path

from client_modes import ALL_OPS, DEFAULT_OPS, MODES, STOCK
from maxtext_configs import BY_NAME
from maxtext_runs import train

_WARM_UP = 3


def main() -> None:
    """Measures the models of the command line, and prints a row of a Markdown table for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--configs", default="data,fsdp,tensor,context", help="names, with commas")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=20)
    arguments = parser.parse_args()
    configs = [BY_NAME[name] for name in arguments.configs.split(",")]
    times: dict[tuple[str, str], list[float]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        for round_number in range(arguments.rounds):
            for mode in MODES:
                output = Path(folder, f"{mode.name}-{round_number}")
                job = train(configs, mode, output, steps=arguments.steps, counts=False)
                assert job.exit_code == 0, job.output[-4000:]
                for name, training in job.trainings.items():
                    assert not training.error, training.error
                    steps = [1e3 * step["perf/step_time_seconds"] for step in training.metrics[0][_WARM_UP:]]
                    times[name, mode.name].append(statistics.mean(steps))
    print("| model | ranks | stock ms | default ops ms | all ops ms | default ops | all ops |")
    print("|---|---|---|---|---|---|---|")
    for config in configs:
        medians = {mode: statistics.median(times[config.name, mode.name]) for mode in MODES}
        gains = [f"{medians[STOCK] / medians[mode]:.2f}" for mode in (DEFAULT_OPS, ALL_OPS)]
        print(f"| {config.name} | {config.ranks} | {' | '.join([f'{medians[m]:.1f}' for m in MODES] + gains)} |")


if __name__ == "__main__":
    main()
