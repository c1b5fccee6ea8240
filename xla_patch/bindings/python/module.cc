// The nanobind module `xla_shmem._core`: the pass, the runtime, and the FFI handlers as capsules.
#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "xla_patch/bindings/ffi/cpu/collectives.h"
#include "xla_patch/bindings/python/bindings.h"
#include "xla_patch/options/values.h"
#include "xla_patch/runtime/runtime.h"

namespace nb = nanobind;

namespace xla_shmem {
namespace {

nb::dict CpuHandlerStages() {
  nb::dict handlers;
  for (const CpuHandler& handler : CpuHandlers()) {
    handlers[handler.target] = HandlerStages(handler.instantiate, handler.execute);
  }
  return handlers;
}

nb::dict CpuHandlerState() {
  nb::dict type;
  type["type_id"] = nb::capsule(LoadedCallTypeId());
  type["type_info"] = nb::capsule(LoadedCallTypeInfo());
  return type;
}

void CreateSegment(const std::string& key, int process, size_t bytes, const std::string& single_copy) {
  const shm::Readers readers = single_copy == "auto"   ? shm::Readers::kSiblings
                               : single_copy == "user" ? shm::Readers::kUser
                                                       : shm::Readers::kNobody;
  Status status;
  {
    nb::gil_scoped_release release;
    status = Runtime::Get().CreateSegment(key, process, bytes, readers);
  }
  RuntimeErrorUnlessOk(status);
}

void Connect(const std::vector<std::pair<int, int64_t>>& pes, const std::vector<bool>& process_reachable,
             const std::vector<std::string>& segment_keys, int64_t topology_fingerprint, double spin_us,
             double deadline_s, double late_after_s, bool single_copy, bool finish_in_caller) {
  JobLayout layout;
  layout.processes = static_cast<int>(process_reachable.size());
  layout.process_reachable = process_reachable;
  if (segment_keys.size() != process_reachable.size()) throw std::runtime_error("connect: one segment key a process");
  for (const std::string& hex : segment_keys) {
    const Result<shm::JobKey> key = shm::JobKey::Parse(hex);
    RuntimeErrorUnlessOk(key.status());
    layout.segment_keys.push_back(*key);
  }
  layout.topology_fingerprint = topology_fingerprint;
  for (const auto& [process, device] : pes) {
    layout.process_of_pe.push_back(process);
    layout.device_of_pe.push_back(device);
  }
  RuntimeOptions options;
  options.spin = std::chrono::microseconds(static_cast<int64_t>(spin_us));
  options.limits.deadline = TimeLimit(deadline_s);
  options.limits.late_after = TimeLimit(late_after_s);
  options.single_copy = single_copy ? shm::SingleCopy::kAuto : shm::SingleCopy::kOff;
  options.finish_in_caller = finish_in_caller;
  Status status;
  {
    nb::gil_scoped_release release;
    status = Runtime::Get().Connect(layout, options);
  }
  RuntimeErrorUnlessOk(status);
}

std::vector<std::string> Observe(const std::vector<int>& processes, const std::vector<int>& local_pes,
                                 const std::string& record_directory, bool statistics, const std::string& trace_file) {
  return Runtime::Get().StartObserver({record_directory, statistics, trace_file}, processes, local_pes);
}

constexpr double kLateAfterSeconds = 60;

void SetConnectHook(nb::callable hook) {
  // Leaked on purpose: XLA may load an executable while the interpreter shuts down.
  nb::object* kept = new nb::object(std::move(hook));
  Runtime::Get().SetConnectHook([kept]() -> Status {
    nb::gil_scoped_acquire acquire;
    try {
      std::string error = nb::cast<std::string>((*kept)());
      return error.empty() ? Status() : Status::Error(std::move(error));
    } catch (const std::exception& exception) {
      return Status::Error(exception.what());
    }
  });
}

}  // namespace

NB_MODULE(_core, m) {
  m.doc() = "Compiler pass, transport runtime and XLA FFI handlers of xla-shmem.";
  // JAX keeps the pass and its topology until the process ends, so a warning about leaked objects would be false.
  nb::set_leak_warnings(false);
  BindOptions(m);
  BindTuning(m);
  BindPass(m);
  BindPassHook(m);
  BindInspection(m);
  BindGpuPlugin(m);
  BindGpuRuntime(m);
  BindGpuTransfers(m);
  m.def("cpu_handlers", &CpuHandlerStages,
        "FFI targets of XLA:CPU by name, each a dict of stage capsules as jax.ffi.register_ffi_target takes it.");
  m.def("cpu_handler_state", &CpuHandlerState,
        "The type of the handlers' state, as XLA's register_custom_type takes it.");
  m.def("empty_call", [] { return HandlerCapsule(&EmptyCall); }, "An FFI handler that does nothing.");
  m.def("after_target", [] { return kAfterTarget; }, "The target on XLA:CPU of the call that has this handler.");
  m.def(
      "create_segment", &CreateSegment, nb::arg("key"), nb::arg("process"), nb::arg("bytes"),
      nb::arg("single_copy") = "auto",
      "Creates this process's shared-memory segment of `bytes`. `key`: 32 hex digits, part of its name. `single_copy`: "
      "the option. Raises RuntimeError.");
  m.def(
      "observe", &Observe, nb::arg("processes"), nb::arg("local_pes"), nb::kw_only(), nb::arg("record_directory"),
      nb::arg("statistics"), nb::arg("trace_file"),
      "Sets what is recorded of the collectives; call it before `connect`. Returns what does not work, as sentences.");
  m.def(
      "report", [] { Runtime::Get().observer().Report(); },
      "Prints the statistics, once, and writes the trace so far. At exit of the process this happens anyway.");
  m.def("connect", &Connect, nb::arg("pes"), nb::arg("process_reachable"), nb::arg("segment_keys"),
        nb::arg("topology_fingerprint"), nb::arg("spin_us"), nb::arg("deadline_s"), nb::kw_only(),
        nb::arg("late_after_s") = kLateAfterSeconds, nb::arg("single_copy") = true, nb::arg("finish_in_caller") = false,
        "Maps the segments of the job. `pes`: (process, global device id) of every PE in PE order. `segment_keys`: by "
        "process. `late_after_s`: seconds after which a late process is reported. `single_copy`: whether PEs may read "
        "each other's memory. `finish_in_caller`: whether a collective "
        "keeps XLA's thread until it has finished. Raises RuntimeError.");
  m.def("failure", [] { return Runtime::Get().status().message(); }, "Why the job has failed, \"\" if it has not.");
  m.def(
      "begin_end", [] { Runtime::Get().BeginEnd(); }, "Records that the program of this process has come to its end.");
  m.def(
      "mark_at_end", [] { Runtime::Get().MarkAtEnd(); },
      "Says to the other processes that no collective of this one is under way and none will begin.");
  m.def(
      "count_peers",
      [] {
        const Runtime::Peers peers = Runtime::Get().CountPeers();
        return std::tuple(peers.running, peers.at_end, peers.lost);
      },
      "How many other processes of this host are running, at their end, and lost (exited, or stopped by a signal).");
  m.def(
      "await_question", [] { return Runtime::Get().AwaitQuestion(); }, nb::call_guard<nb::gil_scoped_release>(),
      "Sleeps until another process asks what this one does. Returns the question's number, 0 after `stop_questions`.");
  m.def(
      "answer", [](uint32_t question, const std::string& text) { Runtime::Get().Answer(question, text); },
      nb::arg("question"), nb::arg("text"), "Answers a question: a text that follows the word 'it'.");
  m.def("stop_questions", [] { Runtime::Get().StopQuestions(); }, "Ends `await_question`.");
  m.def("connected", [] { return Runtime::Get().connected(); }, "Whether `connect` has succeeded.");
  m.def(
      "set_connect_hook", &SetConnectHook, nb::arg("hook"),
      "`hook()` is called when an executable is loaded before `connect`; it returns \"\" or why it cannot be loaded.");
}

}  // namespace xla_shmem
