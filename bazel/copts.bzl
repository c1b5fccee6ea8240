"""Compiler flags of our own targets. In .bazelrc they would apply to other projects' code too."""

# As in CMakeLists.txt. The language standard is in .bazelrc, because all linked code must have the same.
XLA_SHMEM_COPTS = [
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Wno-unknown-warning-option",
]
