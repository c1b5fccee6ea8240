"""Compiler flags of our own targets. Not in .bazelrc, which would apply them to other people's code as well."""

# As in CMakeLists.txt. The language standard is in .bazelrc: it has to be the same for everything that is linked together.
XLA_SHMEM_COPTS = [
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Wno-unknown-warning-option",
]
