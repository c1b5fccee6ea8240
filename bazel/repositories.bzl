"""Everything the build takes from outside of the source tree."""

load("//bazel:doctest.bzl", "doctest_repository")
load("//bazel:offline.bzl", "offline_repositories")

def xla_shmem_repositories():
    """Declares the external repositories; called once, by WORKSPACE."""
    doctest_repository(name = "doctest")
    offline_repositories()
