"""Predicts the time of a training step on a described cluster, on NCCL and on NVSHMEM.

The input is a compiled module (`module_program`). `walk` simulates its schedule with the costs of `transfers`, and
`forecast` compares both backends. Nothing is measured. Importing this imports no JAX.
"""
