"""What the GPU road knows before XLA is asked: GPUs and driver, NVIDIA's libraries, and which GPUs NVLink joins.

Nothing here imports JAX, initialises CUDA contexts or raises because there is no GPU.
"""
