"""Compiles for GPUs that are described, not present, with the stock CUDA plugin. Importing this imports no JAX."""
