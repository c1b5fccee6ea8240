"""Workloads on long sequences: a decoder, its parallelism, training jobs, and comparisons of them.

Nothing here knows what carries a job's collectives. Importing this package does not import JAX.
"""
