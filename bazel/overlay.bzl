"""Targets of the overlay (xla_patch/overlay) as they are built here: against @xla, for tests only. In XLA's own tree the BUILD.overlay files
count."""

load("//bazel:copts.bzl", "XLA_SHMEM_COPTS")

# With optimisation a compiler spends half a minute on XLA's headers, and these tests take a second without.
_COPTS = XLA_SHMEM_COPTS + ["-O0"]

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
