#include <nanobind/stl/string.h>

#include <string>

#include "xla/ffi/api/c_api.h"
#include "xla_patch/bindings/pjrt/pass_callbacks.h"
#include "xla_patch/bindings/pjrt/plugin.h"
#include "xla_patch/bindings/python/bindings.h"
#include "xla_patch/runtime/pass_hook.h"

namespace xla_shmem {
namespace {

namespace nb = nanobind;
using pjrt::Plugin;

void* Pointer(const nb::dict& dict, const char* key) {
  return dict.contains(key) ? nb::cast<nb::capsule>(dict[key]).data() : nullptr;
}

void RegisterHandler(const Plugin& plugin, const std::string& target, const nb::dict& stages) {
  RuntimeErrorUnlessOk(plugin.RegisterHandler(target, {Pointer(stages, "instantiate"), Pointer(stages, "prepare"),
                                                       Pointer(stages, "initialize"), Pointer(stages, "execute")}));
}

}  // namespace

void BindGpuPlugin(nb::module_& m) {
  nb::class_<Plugin>(m, "GpuPlugin", "A loaded PJRT plugin of XLA:GPU. Registers the pass and its handlers.")
      .def(
          "__init__",
          [](Plugin* self, const nb::capsule& api) {
            Plugin plugin;
            RuntimeErrorUnlessOk(plugin.Open(api.data()));
            new (self) Plugin(plugin);
          },
          nb::arg("api"), "api: capsule of the plugin's PJRT_Api. RuntimeError if it lacks an extension.")
      .def_prop_ro("version", &Plugin::version, "Version of the plugin's C API, such as \"0.112\".")
      .def(
          "register_pass",
          [](const Plugin& self, const std::string& name) {
            // Never destroyed: XLA may compile until the process ends.
            static auto* const pass = new pjrt::PassCallbacks(&PassHook::ForGpu());
            PassHook::ForGpu().SetCopiesAliasedParameters(self.drops_aliases());
            RuntimeErrorUnlessOk(self.RegisterTransform(name, pass->callbacks()));
          },
          nb::arg("name"),
          "Makes XLA run the pass on every module after scheduling. RuntimeError if the plugin returns an error.")
      .def(
          "clear_pass",
          [](const Plugin& self, const std::string& name) { RuntimeErrorUnlessOk(self.ClearTransform(name)); },
          nb::arg("name"), "Undoes register_pass. RuntimeError if the plugin returns an error.")
      .def("register_handler", &RegisterHandler, nb::arg("target"), nb::arg("stages"),
           "Registers an FFI handler under the name of a custom call. RuntimeError if the plugin returns an error.");
}

}  // namespace xla_shmem
