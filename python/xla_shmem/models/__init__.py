"""Models that the training jobs use. Importing this package does not import JAX."""
