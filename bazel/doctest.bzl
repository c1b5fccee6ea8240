"""The doctest header of this machine as the repository @doctest."""

_BUILD = """
cc_library(
    name = "doctest",
    hdrs = ["doctest/doctest.h"],
    includes = ["."],
    visibility = ["//visibility:public"],
)
"""

def _doctest_repository_impl(ctx):
    script = ctx.path(ctx.attr._find_doctest)
    found = ctx.execute([script])
    if found.return_code != 0:
        fail("{}: {}".format(script, found.stderr.strip()))
    directory = found.stdout.strip()
    ctx.symlink(directory + "/doctest", "doctest")
    ctx.file("BUILD", _BUILD, executable = False)

doctest_repository = repository_rule(
    implementation = _doctest_repository_impl,
    attrs = {
        "_find_doctest": attr.label(
            default = "//:scripts/find_doctest.sh",
            allow_single_file = True,
        ),
    },
    doc = "Links the directory that scripts/find_doctest.sh prints; the script unpacks Debian's package if there is none.",
    environ = ["DOCTEST_INCLUDE_DIR"],
    local = True,
)
