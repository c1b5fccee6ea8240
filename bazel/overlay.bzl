"""Targets of the overlay (xla_patch/overlay) for this build: against @xla, for tests only. XLA's own tree uses the
BUILD.overlay files instead."""

load("//bazel:copts.bzl", "XLA_SHMEM_COPTS")

# Optimising XLA's headers takes half a minute a file, and the tests take a second without it. The wheel of @xla is built
# with AVX, and Abseil's hashes depend on it: without, a table that one side fills seems empty to the other. It is built
# with NDEBUG, too: without, XLA's tables of asynchronous values have other rows, and a call ends at a wrong address.
_COPTS = XLA_SHMEM_COPTS + [
    "-O0",
    "-mavx",
    "-DNDEBUG",
]

def overlay_cc_library(name, **kwargs):
    """A cc_library whose headers are included by their path in XLA's tree."""
    native.cc_library(
        name = name,
        copts = _COPTS,
        strip_include_prefix = "/xla_patch/overlay",
        **kwargs
    )

def overlay_cc_test(name, **kwargs):
    """A cc_test against XLA."""
    native.cc_test(
        name = name,
        size = "small",
        copts = _COPTS,
        **kwargs
    )

def overlay_cc_binary(name, **kwargs):
    """A program of a test against XLA."""
    native.cc_binary(
        name = name,
        testonly = True,
        copts = _COPTS,
        **kwargs
    )
