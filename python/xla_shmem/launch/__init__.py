"""Runs a program as several local ranks. Imports no JAX."""
