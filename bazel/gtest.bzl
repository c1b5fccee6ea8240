"""GoogleTest of this machine as the repository @com_google_googletest, under the labels that openxla/xla uses."""

_BUILD = """
cc_library(
    name = "gtest",
    srcs = glob(["lib/*.a"]),
    hdrs = glob(["include/**"]),
    includes = ["include"],
    linkopts = ["-pthread"],
    visibility = ["//visibility:public"],
)

alias(
    name = "gtest_main",
    actual = ":gtest",
    visibility = ["//visibility:public"],
)
"""

def _gtest_repository_impl(ctx):
    script = ctx.path(ctx.attr._find_gtest)
    found = ctx.execute([script])
    if found.return_code != 0:
        fail("{}: {}".format(script, found.stderr.strip()))
    directory = ctx.path(found.stdout.strip())
    for name in ["gtest", "gmock"]:
        ctx.symlink(directory.get_child("include").get_child(name), "include/" + name)
    machine = ctx.execute(["uname", "-m"]).stdout.strip()
    for archive in ["libgtest.a", "libgtest_main.a", "libgmock.a"]:
        for lib in [directory.get_child("lib"), directory.get_child("lib").get_child(machine + "-linux-gnu")]:
            if lib.get_child(archive).exists:
                ctx.symlink(lib.get_child(archive), "lib/" + archive)
                break
    ctx.file("BUILD", _BUILD, executable = False)

gtest_repository = repository_rule(
    implementation = _gtest_repository_impl,
    attrs = {
        "_find_gtest": attr.label(
            default = "@xla_shmem//:scripts/find_gtest.sh",
            allow_single_file = True,
        ),
    },
    doc = "Links what scripts/find_gtest.sh finds; the script unpacks Debian's packages if there is none.",
    environ = ["GTEST_DIR"],
    local = True,
)
