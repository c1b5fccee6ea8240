"""Facts that the GPU path reads without XLA: GPUs and driver, NVIDIA's libraries, and NVLink domains.

Importing this imports no JAX. Nothing here makes a CUDA context, and no function raises because there is no GPU.
"""
