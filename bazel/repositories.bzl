"""The external repositories of the build."""

load("//bazel:doctest.bzl", "doctest_repository")
load("//bazel:gtest.bzl", "gtest_repository")
load("//bazel:offline.bzl", "offline_repositories")
load("//bazel:xla.bzl", "xla_repository")

def xla_shmem_repositories():
    """Declares the external repositories; called once, by WORKSPACE."""
    doctest_repository(name = "doctest")
    gtest_repository(name = "com_google_googletest")
    offline_repositories()
    xla_repository(name = "xla")
