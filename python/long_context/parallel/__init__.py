"""Parallelism of a training job: meshes, shardings, context-parallel attention and tensor-parallel matmuls.

`make_operations` turns these into the operations of `long_context.models.llama`. All communication is plain JAX, such
as `lax.ppermute`. Importing this package does not import JAX.
"""
