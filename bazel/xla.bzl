"""The repository @xla, against which the overlay in xla_patch/overlay compiles, in one of two modes.

XLA_SHMEM_XLA=prebuilt (the default): XLA's headers and libraries of the TensorFlow CPU wheel, under openxla/xla's labels.
All labels are one library, so this mode does not detect a dependency that is missing in a BUILD file.

XLA_SHMEM_XLA=source (`bazel test --config=source //...`): openxla/xla at the commit below, with the patches and the
overlay of this tree.

Both have workspace_stage_<n>.bzl, which WORKSPACE loads one after the other: a stage may load from a repository that an
earlier stage declared.
"""

XLA_COMMIT = "5a9e73cbd92530cac2ac36f4736a774b2412afe2"  # jax 0.10.2
_XLA_SHA256 = "08a52210a04cd68d38f6201d56273d04ac0f8b4e0da9f72677c74a48cc637422"

# The number of stages in WORKSPACE.
_STAGES = 20

# Every label of XLA in our BUILD files.
_PREBUILT_TARGETS = {
    "xla": ["debug_options_flags", "shape_util", "xla_data_proto_cc", "xla_proto_cc"],
    "xla/hlo/ir": ["hlo"],
    "xla/hlo/parser": ["hlo_parser"],
    "xla/hlo/pass": ["hlo_pass", "hlo_pass_pipeline"],
    "xla/hlo/transforms/collectives": ["all_reduce_combiner"],
    "xla/pjrt/distributed": ["in_memory_key_value_store", "key_value_store_interface"],
    "xla/runtime": ["device_id", "process_id"],
    "xla/service": ["compilation_stats", "computation_placer", "gpu_topology", "hlo_module_config", "hlo_verifier"],
    "xla/service/gpu": ["backend_configs_cc"],
    "xla/tsl/platform": ["status_macros"],
}

_PREBUILT_BUILD = """
package(default_visibility = ["//visibility:public"])

cc_library(
    name = "prebuilt",
    srcs = [
        "libtensorflow_cc.so.2",
        "libtensorflow_framework.so.2",
    ],
    hdrs = glob(
        [
            "include/absl/**",
            "include/Eigen/**",
            "include/external/farmhash_archive/**",
            "include/external/highwayhash/**",
            "include/google/**",
            "include/ml_dtypes/**",
            "include/tsl/**",
            "include/unsupported/**",
            "include/xla/**",
        ],
    ),
    includes = [
        "include",
        "include/external/farmhash_archive/src",
        "include/external/highwayhash",
    ],
)
"""

_PREBUILT_FIRST_STAGE = """
load("@xla_shmem//bazel:gtest.bzl", "gtest_repository")

def workspace_stage():
    gtest_repository(name = "com_google_googletest")
"""

_EMPTY_STAGE = """
def workspace_stage():
    pass
"""

def _prebuilt(ctx):
    script = ctx.path(ctx.attr._find_xla)
    found = ctx.execute([script], timeout = 3600)
    if found.return_code != 0:
        fail("{}: {}".format(script, found.stderr.strip()))
    directory = found.stdout.strip().split("\n")[-1]
    for name in ["include", "libtensorflow_cc.so.2", "libtensorflow_framework.so.2"]:
        ctx.symlink(directory + "/" + name, name)
    ctx.file("BUILD", _PREBUILT_BUILD, executable = False)
    alias = 'alias(\n    name = "{}",\n    actual = "@xla//:prebuilt",\n    visibility = ["//visibility:public"],\n)\n'
    for package, names in _PREBUILT_TARGETS.items():
        ctx.file(package + "/BUILD", "\n".join([alias.format(name) for name in names]), executable = False)
    for stage in range(_STAGES):
        ctx.file(
            "workspace_stage_{}.bzl".format(stage + 1),
            _EMPTY_STAGE if stage else _PREBUILT_FIRST_STAGE,
            executable = False,
        )

def _statements(workspace):
    """The top-level statements of a WORKSPACE file, without comments."""
    statements = []
    for line in workspace.split("\n"):
        if line.startswith("#") or not line:
            continue
        if statements and line[0] in " \t)]}":
            statements[-1] += "\n" + line
        else:
            statements.append(line)
    return statements

def workspace_stages(workspace):
    """Cuts XLA's own WORKSPACE before each load that follows another statement; each piece becomes a .bzl file."""
    stages = []
    for statement in _statements(workspace):
        if statement.startswith("workspace("):
            continue
        is_load = statement.startswith("load(")
        if is_load and (not stages or stages[-1][1]):
            stages.append(([], []))
        stages[-1][0 if is_load else 1].append(statement)
    texts = []
    for loads, calls in stages:
        # XLA is the main repository there and @xla here.
        text = "\n".join(loads).replace('load(":', 'load("@xla//:').replace('load("//', 'load("@xla//')
        text += "\n\ndef workspace_stage():\n"
        for call in calls:
            call = call.replace('"//', '"@xla//')
            if call.startswith("register_toolchains("):
                call = "native." + call
            text += "    " + call.replace("\n", "\n    ") + "\n"
        texts.append(text)
    return texts

def _link_tree(ctx, directory, root):
    """Links the files below `directory` to their places under `root`; a BUILD.overlay becomes the BUILD file."""
    pending = [directory]
    for _ in range(1000):  # Starlark has no `while`
        if not pending:
            return
        for path in pending.pop().readdir():
            name = path.basename
            place = str(path)[len(str(root)) + 1:]
            if name == "BUILD.overlay":
                ctx.symlink(path, place[:-len(".overlay")])
            elif "." in name and not name.endswith(".overlay"):
                ctx.symlink(path, place)
            elif "." not in name and name != "BUILD":
                pending.append(path)  # no directory here has a dot in its name
    fail("{} has more than 1000 directories".format(directory))

def _source(ctx):
    ctx.download_and_extract(
        url = "https://github.com/openxla/xla/archive/{}.tar.gz".format(XLA_COMMIT),
        sha256 = _XLA_SHA256,
        stripPrefix = "xla-" + XLA_COMMIT,
    )
    root = ctx.path(ctx.attr._workspace).dirname
    ours = root.get_child("xla_patch")
    patches = ours.get_child("patches").get_child(XLA_COMMIT)
    if not patches.exists:
        fail("{} does not exist: no patches for this commit of openxla/xla".format(patches))
    for patch in sorted(patches.readdir(), key = str):
        if patch.basename.endswith(".patch"):
            ctx.patch(patch, strip = 1)

    # The patched targets depend on the overlay, and the overlay on the shared core, which is one package in XLA's tree.
    overlay = ours.get_child("overlay")
    _link_tree(ctx, overlay.get_child("xla"), overlay)
    for folder in ["assigner", "nvshmem", "options", "thunks", "types"]:
        _link_tree(ctx, ours.get_child(folder), root)
    ctx.symlink(overlay.get_child("core.BUILD.overlay"), "xla_patch/BUILD")
    stages = workspace_stages(ctx.read("WORKSPACE"))
    if len(stages) > _STAGES:
        fail("the WORKSPACE of openxla/xla {} has {} stages, ours goes through {}: raise _STAGES in bazel/xla.bzl and add them " +
             "to WORKSPACE".format(XLA_COMMIT, len(stages), _STAGES))
    for stage in range(_STAGES):
        text = stages[stage] if stage < len(stages) else _EMPTY_STAGE
        ctx.file("workspace_stage_{}.bzl".format(stage + 1), text, executable = False)

def _xla_repository_impl(ctx):
    mode = ctx.os.environ.get("XLA_SHMEM_XLA", "prebuilt")
    if mode == "prebuilt":
        _prebuilt(ctx)
    elif mode == "source":
        _source(ctx)
    else:
        fail("XLA_SHMEM_XLA={}: must be prebuilt or source".format(mode))

xla_repository = repository_rule(
    implementation = _xla_repository_impl,
    attrs = {
        "_find_xla": attr.label(
            default = "//:scripts/find_xla.sh",
            allow_single_file = True,
        ),
        "_workspace": attr.label(
            default = "//:WORKSPACE",
            allow_single_file = True,
        ),
    },
    environ = [
        "XLA_SHMEM_TENSORFLOW",
        "XLA_SHMEM_XLA",
    ],
    local = True,
)
