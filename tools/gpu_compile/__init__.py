"""Compiles training steps for GPUs that are described, not present, with the stock CUDA plugin.

This needs the plugin's wheels (scripts/setup_gpu_aot.sh), but no GPU and no driver. Importing this imports no JAX.
"""
