"""The repository @xla: headers and libraries of XLA:GPU from a TensorFlow wheel (scripts/find_xla.sh), under openxla/xla's
labels. The overlay in xla_patch/overlay compiles and links against it.

All labels are one library, so a dependency that is missing in a BUILD file is not noticed here, but by
tests/python/repository/test_overlay_in_bazel.py.
"""

# Every label of XLA in our BUILD files.
_TARGETS = {
    "xla": ["debug_options_flags", "literal", "shape_util", "xla_data_proto_cc", "xla_proto_cc"],
    "xla/backends/gpu/runtime": ["thunks"],
    "xla/ffi/api": ["ffi"],
    "xla/hlo/builder": ["xla_computation"],
    "xla/hlo/ir": ["hlo"],
    "xla/hlo/parser": ["hlo_parser"],
    "xla/hlo/pass": ["hlo_pass", "hlo_pass_pipeline"],
    "xla/hlo/transforms/collectives": ["all_reduce_combiner"],
    "xla/pjrt": ["pjrt_client"],
    "xla/pjrt/distributed": ["in_memory_key_value_store", "key_value_store_interface"],
    "xla/pjrt/plugin/xla_gpu": ["xla_gpu_pjrt_client"],
    "xla/runtime": ["device_id", "process_id"],
    "xla/service": ["compilation_stats", "computation_placer", "gpu_topology", "hlo_module_config", "hlo_proto_cc", "hlo_verifier"],
    "xla/service/gpu": ["backend_configs_cc", "gpu_executable"],
    "xla/tsl/util": ["command_line_flags"],
}

# The wheel has no headers of LLVM. XLA's headers of thunks and of PJRT reach them through these, of which they need these
# names. No module of MLIR is ever passed.
_STAND_INS = {
    "mlir/IR/BuiltinAttributes.h": """
namespace mlir {
class DictionaryAttr;
}
""",
    "mlir/IR/BuiltinOps.h": """
#include <cstddef>

namespace mlir {
class ModuleOp {
 public:
  ModuleOp(std::nullptr_t = nullptr) {}

 private:
  void* state_ = nullptr;
};
}
""",
    "mlir/IR/MLIRContext.h": """
namespace mlir {
class MLIRContext;
}
""",
    "mlir/IR/OwningOpRef.h": """
namespace mlir {
template <typename Op>
class OwningOpRef {
 public:
  Op& operator*() { return op_; }

 private:
  Op op_;
};
}
""",
    "xla/service/gpu/ir_emission_utils.h": """
#include <string>

#include "absl/container/flat_hash_map.h"
#include "xla/hlo/ir/hlo_instructions.h"
#include "xla/service/buffer_assignment.h"

namespace xla::gpu {
using BinaryMap = absl::flat_hash_map<std::string, std::string>;
}
""",
    "xla/service/llvm_ir/llvm_util.h": """
#include <string>

namespace xla::llvm_ir {
template <typename T>
std::string DumpToString(T*);
}
""",
}

_BUILD = """
package(default_visibility = ["//visibility:public"])

cc_library(
    name = "wheel",
    srcs = [
        "libtensorflow_cc.so.2",
        "libtensorflow_framework.so.2",
    ],
    hdrs = glob(
        [
            "stand_ins/**",
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
        "stand_ins",
        "include",
        "include/external/farmhash_archive/src",
        "include/external/highwayhash",
    ],
)
"""

_ALIAS = """alias(
    name = "{}",
    actual = "@xla//:wheel",
    visibility = ["//visibility:public"],
)
"""

def _xla_repository_impl(ctx):
    script = ctx.path(ctx.attr._find_xla)
    found = ctx.execute([script], timeout = 3600)
    if found.return_code != 0:
        fail("{}: {}".format(script, found.stderr.strip()))
    directory = found.stdout.strip().split("\n")[-1]
    for name in ["include", "libtensorflow_cc.so.2", "libtensorflow_framework.so.2"]:
        ctx.symlink(directory + "/" + name, name)
    for path, text in _STAND_INS.items():
        # Some of these headers are included by more than one other.
        ctx.file("stand_ins/" + path, "#pragma once" + text, executable = False)
    ctx.file("BUILD", _BUILD, executable = False)
    for package, names in _TARGETS.items():
        ctx.file(package + "/BUILD", "\n".join([_ALIAS.format(name) for name in names]), executable = False)

xla_repository = repository_rule(
    implementation = _xla_repository_impl,
    attrs = {
        "_find_xla": attr.label(
            default = "//:scripts/find_xla.sh",
            allow_single_file = True,
        ),
    },
    environ = [
        "XLA_SHMEM_TENSORFLOW",
        "XLA_SHMEM_XLA",
    ],
    local = True,
)
