"""The Llama decoder that training jobs use, on one device or with operations of a mesh passed in.

`long_context.parallel` imports this package, never the other way round. Importing it does not import JAX.
"""
