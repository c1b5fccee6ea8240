#include "xla_patch/bindings/python/gpu_plugin_bindings.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "xla/ffi/api/c_api.h"
#include "xla_patch/bindings/pjrt/pass_hook.h"
#include "xla_patch/bindings/pjrt/plugin.h"
#include "xla_patch/bindings/python/pass_bindings.h"

namespace xla_shmem {
namespace {

namespace nb = nanobind;
using pjrt::PassHook;
using pjrt::Plugin;

void ThrowUnlessEmpty(const std::string& error) {
  if (!error.empty()) throw std::runtime_error(error);
}

void* Pointer(const nb::dict& dict, const char* key) {
  return dict.contains(key) ? nb::cast<nb::capsule>(dict[key]).data() : nullptr;
}

void RegisterHandler(const Plugin& plugin, const std::string& target, const nb::dict& stages) {
  ThrowUnlessEmpty(plugin.RegisterHandler(target, {Pointer(stages, "instantiate"), Pointer(stages, "prepare"),
                                                   Pointer(stages, "initialize"), Pointer(stages, "execute")}));
}

// The callables are leaked on purpose: XLA may compile while the interpreter is going down.
void SetHooks(nb::callable connect, std::optional<nb::callable> observe) {
  auto* kept_connect = new nb::object(std::move(connect));
  PassHook::Get().SetConnect([kept_connect]() -> std::string {
    nb::gil_scoped_acquire acquire;
    try {
      return nb::cast<std::string>((*kept_connect)());
    } catch (const std::exception& exception) {
      return exception.what();
    }
  });
  if (!observe.has_value()) {
    PassHook::Get().SetObserver(nullptr);
    return;
  }
  auto* kept_observe = new nb::object(std::move(*observe));
  PassHook::Get().SetObserver([kept_observe](std::string_view module, const std::vector<CollectiveRecord>& records) {
    nb::gil_scoped_acquire acquire;
    (*kept_observe)(nb::bytes(module.data(), module.size()), RecordList(records));
  });
}

}  // namespace

void BindGpuPlugin(nb::module_& m) {
  nb::class_<Plugin>(m, "GpuPlugin", "A loaded PJRT plugin of XLA:GPU, to register the pass and its handlers with.")
      .def(
          "__init__",
          [](Plugin* self, const nb::capsule& api) {
            Plugin plugin;
            ThrowUnlessEmpty(plugin.Open(api.data()));
            new (self) Plugin(plugin);
          },
          nb::arg("api"), "api: capsule of the plugin's PJRT_Api. RuntimeError if it lacks an extension.")
      .def_prop_ro("version", &Plugin::version, "Version of the plugin's C API, as \"0.112\".")
      .def(
          "register_pass",
          [](const Plugin& self, const std::string& name) {
            PassHook::Get().SetForgetsAliases(self.forgets_aliases());
            ThrowUnlessEmpty(self.RegisterTransform(name, PassHook::Get().callbacks()));
          },
          nb::arg("name"), "Run the pass on every module after scheduling. RuntimeError if the plugin refuses.")
      .def(
          "clear_pass",
          [](const Plugin& self, const std::string& name) { ThrowUnlessEmpty(self.ClearTransform(name)); },
          nb::arg("name"), "Undo register_pass. RuntimeError if the plugin refuses.")
      .def("register_handler", &RegisterHandler, nb::arg("target"), nb::arg("stages"),
           "Make an FFI handler known under the name that custom calls use. RuntimeError if the plugin refuses.");

  m.def(
      "set_gpu_pass",
      [](const Topology& topology, const Transport& transport, const std::string& profile, int64_t threshold,
         const OpList& ops, const TuningTable* tuning) {
        PassHook::Get().SetOptions(MakePassOptions(topology, transport, profile, threshold, ops, tuning, "gpu"));
      },
      nb::arg("topology"), nb::arg("transport"), nb::kw_only(), nb::arg("profile") = "upstream",
      nb::arg("threshold") = kDefaultThresholdBytes, nb::arg("ops") = OpList(), nb::arg("tuning") = nb::none(),
      "Sets what the registered pass decides by; arguments as of run_pass. Holds for modules compiled from now on.");
  m.def(
      "reset_gpu_pass", [] { PassHook::Get().Reset(); },
      "Forgets set_gpu_pass, so that the next module calls connect.");
  m.def("set_gpu_pass_hooks", &SetHooks, nb::arg("connect"), nb::arg("observe") = nb::none(),
        "`connect()` is called at the first module unless set_gpu_pass has been; it calls that and returns \"\", or "
        "why it cannot. `observe(module, records)` is told of every module with collectives.");
}

}  // namespace xla_shmem
