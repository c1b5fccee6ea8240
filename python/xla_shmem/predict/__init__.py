"""Predicts the time of a compiled training step on a described cluster. Importing this imports no JAX."""
