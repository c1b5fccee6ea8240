"""Replaces the downloads that Debian's Bazel (package bazel-bootstrap, 4.2.3) would make before it compiles.

Bazel's own BUILD files load @rules_cc and @rules_java, and every test depends on @remote_coverage_tools. Their release
archives are on GitHub, which machines with access to package registries only cannot reach. C++ without coverage needs
only the names of the built-in rules. Release builds of Bazel know their version number and get the real repositories.
"""

_RULES_CC = [
    "cc_binary",
    "cc_import",
    "cc_library",
    "cc_proto_library",
    "cc_test",
    "cc_toolchain",
    "cc_toolchain_suite",
    "objc_import",
    "objc_library",
]

_RULES_JAVA = [
    "java_binary",
    "java_import",
    "java_library",
    "java_proto_library",
    "java_runtime",
    "java_toolchain",
]

def _builtin_rules_impl(ctx):
    ctx.file(ctx.attr.package + "/BUILD", "", executable = False)
    ctx.file(
        ctx.attr.package + "/defs.bzl",
        "".join(["{0} = native.{0}\n".format(rule) for rule in ctx.attr.rules]),
        executable = False,
    )
    for rule in ctx.attr.rules:
        ctx.file("{}/{}.bzl".format(ctx.attr.package, rule), "{0} = native.{0}\n".format(rule), executable = False)

_builtin_rules = repository_rule(
    implementation = _builtin_rules_impl,
    attrs = {
        "package": attr.string(mandatory = True),
        "rules": attr.string_list(mandatory = True),
    },
    doc = "`//<package>:defs.bzl` with Bazel's built-in rules of these names, and `//<package>:<rule>.bzl` for each.",
)

_COVERAGE_BUILD = """
filegroup(
    name = "coverage_report_generator",
    srcs = ["no_coverage.sh"],
    visibility = ["//visibility:public"],
)

filegroup(
    name = "lcov_merger",
    srcs = ["no_coverage.sh"],
    visibility = ["//visibility:public"],
)
"""

def _no_coverage_tools_impl(ctx):
    ctx.file("BUILD", _COVERAGE_BUILD, executable = False)
    ctx.file("no_coverage.sh", "#!/bin/sh\necho 'no coverage with this Bazel: see bazel/offline.bzl' >&2\nexit 1\n")

_no_coverage_tools = repository_rule(
    implementation = _no_coverage_tools_impl,
    doc = "Labels that every test names; the programs behind them only run under `bazel coverage`.",
)

def offline_repositories():
    """Declares the replacements if this Bazel has no version number, like Debian's."""
    if native.bazel_version[:1].isdigit():
        return
    _builtin_rules(name = "rules_cc", package = "cc", rules = _RULES_CC)
    _builtin_rules(name = "rules_java", package = "java", rules = _RULES_JAVA)
    _no_coverage_tools(name = "remote_coverage_tools")
