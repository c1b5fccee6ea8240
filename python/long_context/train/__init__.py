"""Training jobs: a Llama decoder on a mesh of devices, from a `TrainConfig` to a log of steps and checkpoints.

`config` checks a job before any process starts, `job_run` starts its ranks, `trainer` is what a rank runs. Nothing here
depends on what carries the collectives: that is `long_context.compare`. Importing this package does not import JAX.
"""
