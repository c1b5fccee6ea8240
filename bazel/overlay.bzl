"""Libraries of the overlay (xla_patch/xla), which compile in two places: here, and at the same path in XLA's own tree."""

load("//bazel:copts.bzl", "XLA_SHMEM_COPTS")

def overlay_cc_library(name, **kwargs):
    """A cc_library whose headers are included by their path in XLA's tree."""
    is_here = native.package_name().startswith("xla_patch/")
    native.cc_library(
        name = name,
        copts = XLA_SHMEM_COPTS,
        strip_include_prefix = "/xla_patch" if is_here else None,
        **kwargs
    )

# XLA's headers take a compiler half a minute with optimisation, and tests gain nothing by it.
OVERLAY_TEST_COPTS = XLA_SHMEM_COPTS + ["-O0"]

def overlay_cc_test(name, **kwargs):
    """A cc_test against XLA."""
    native.cc_test(
        name = name,
        size = "small",
        copts = OVERLAY_TEST_COPTS,
        **kwargs
    )
