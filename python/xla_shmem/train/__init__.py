"""Training jobs. Importing this package does not import JAX."""
