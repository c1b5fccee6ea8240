#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "xla_patch/bindings/python/bindings.h"
#include "xla_patch/runtime/pass_hook.h"

namespace xla_shmem {
namespace {

namespace nb = nanobind;

// The callables are leaked on purpose: XLA may compile while the interpreter shuts down.
void SetHooks(PassHook& hook, nb::callable connect, std::optional<nb::callable> observe,
              std::optional<nb::callable> unread) {
  auto* kept_connect = new nb::object(std::move(connect));
  hook.SetConnect([kept_connect]() -> Status {
    nb::gil_scoped_acquire acquire;
    try {
      const auto error = nb::cast<std::string>((*kept_connect)());
      return error.empty() ? Status() : Status::Error(error);
    } catch (const std::exception& exception) {
      return Status::Error(exception.what());
    }
  });
  hook.SetObserver(nullptr);
  if (observe.has_value()) {
    auto* kept_observe = new nb::object(std::move(*observe));
    hook.SetObserver([kept_observe](std::string_view module, const std::vector<CollectiveRecord>& records) {
      nb::gil_scoped_acquire acquire;
      (*kept_observe)(nb::bytes(module.data(), module.size()), RecordList(records));
    });
  }
  hook.SetUnread(nullptr);
  if (unread.has_value()) {
    auto* kept_unread = new nb::object(std::move(*unread));
    hook.SetUnread([kept_unread](size_t num_bytes, const std::string& why) {
      nb::gil_scoped_acquire acquire;
      (*kept_unread)(num_bytes, Text(why));
    });
  }
}

// "none" is replaced by the hook's own lowering.
void SetOptions(PassHook& hook, const Topology& topology, const Transport& transport, const std::string& profile,
                int64_t threshold, const OpList& ops, const TuningTable* tuning, const std::string& gpu,
                const std::string& hierarchical, const WayList& backends, const WayList& settable, bool one_at_a_time,
                bool mark_default_collectives, bool marks_keep_aliasing) {
  PassOptions options = MakePassOptions(topology, transport, profile, threshold, ops, tuning, "none", gpu, hierarchical,
                                        backends, settable);
  options.one_at_a_time = one_at_a_time;
  options.mark_default_collectives = mark_default_collectives;
  options.marks_keep_aliasing = marks_keep_aliasing;
  hook.SetOptions(std::move(options));
}

nb::object Run(PassHook& hook, const nb::bytes& module) {
  const Result<PassResult> result = [&] {
    nb::gil_scoped_release release;
    return hook.Run(View(module));
  }();
  if (!result.ok()) throw std::runtime_error("xla_shmem: " + result.message());
  return result->changed ? nb::bytes(result->module.data(), result->module.size()) : nb::object(nb::none());
}

}  // namespace

void BindPassHook(nb::module_& m) {
  nb::class_<PassHook>(m, "PassHook", "The entry of the compiler pass for one platform.")
      .def("set_hooks", &SetHooks, nb::arg("connect"), nb::arg("observe") = nb::none(), nb::arg("unread") = nb::none(),
           "`connect()` is called at the first module unless set_options was called before. It calls set_options and "
           "returns \"\", or returns an error, which fails the compilation. `observe(module, records)` is called for "
           "every module with collectives, `unread(num_bytes, why)` for every module that the pass cannot read.")
      .def("set_options", &SetOptions, nb::arg("topology"), nb::arg("transport"), nb::kw_only(),
           nb::arg("profile") = "upstream", nb::arg("threshold") = kDefaultThresholdBytes, nb::arg("ops") = OpList(),
           nb::arg("tuning") = nb::none(), nb::arg("gpu") = "", nb::arg("hierarchical") = "auto",
           nb::arg("backends") = WayList(), nb::arg("settable") = WayList(), nb::arg("one_at_a_time") = false,
           nb::arg("mark_default_collectives") = false, nb::arg("marks_keep_aliasing") = false,
           "Sets what the pass decides by, for modules compiled from now on. Arguments as of run_pass.")
      .def("reset", &PassHook::Reset, "Drops what set_options has set, so that the next module calls `connect`.")
      .def(
          "run", &Run, nb::arg("module"),
          "Runs the pass on a serialised HloModuleProto. Returns the rewritten module, or None if nothing changes. "
          "jaxlib registers a transform of XLA:CPU only as a callable, so XLA:CPU calls this method; XLA:GPU calls the "
          "hook through the C API of its plugin. RuntimeError if the module is malformed or `connect` fails.");
  m.def("cpu_pass", &PassHook::ForCpu, nb::rv_policy::reference, "The entry of the pass for XLA:CPU.");
  m.def("gpu_pass", &PassHook::ForGpu, nb::rv_policy::reference, "The entry of the pass for XLA:GPU.");
}

}  // namespace xla_shmem
