"""How one job is spread over a mesh of devices. Importing this package does not import JAX."""
