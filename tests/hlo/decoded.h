#ifndef XLA_SHMEM_TESTS_HLO_DECODED_H_
#define XLA_SHMEM_TESTS_HLO_DECODED_H_

#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

#include "xla_patch/hlo/analysis/inspect.h"
#include "xla_patch/hlo/proto/wire.h"
#include "xla_patch/hlo/rewrite/pass.h"

namespace xla_shmem::test {

// All top-level fields of a message, or those with one number.
inline std::vector<hlo::Field> Fields(std::string_view message, uint32_t number = 0) {
  std::vector<hlo::Field> fields;
  hlo::FieldReader reader(message);
  for (hlo::Field field; reader.Next(&field);) {
    if (number == 0 || field.number == number) {
      fields.push_back(field);
    }
  }
  REQUIRE_MESSAGE(reader.ok(), reader.error());
  return fields;
}

inline std::string_view Only(std::string_view message, uint32_t number) {
  const std::vector<hlo::Field> fields = Fields(message, number);
  REQUIRE(fields.size() == 1);
  return fields[0].bytes;
}

// The instruction with this name, in whichever computation.
inline std::string_view FindInstruction(std::string_view module, std::string_view name) {
  for (const hlo::Field& computation : Fields(module, 3)) {
    for (const hlo::Field& instruction : Fields(computation.bytes, 2)) {
      if (Only(instruction.bytes, 1) == name) {
        return instruction.bytes;
      }
    }
  }
  FAIL("no instruction " << name);
  return {};
}

// `devices` devices, one per process; PE = devices - 1 - device id, so that ids and PEs cannot be confused.
inline PassOptions MakeOptions(Lowering lowering, int32_t devices = 4) {
  PassOptions options;
  std::vector<DeviceLocation> locations;
  std::unordered_map<int64_t, int32_t> reach;
  for (int32_t i = 0; i < devices; ++i) {
    locations.push_back({i, i, 0, 0, devices - 1 - i});
    reach[i] = 0;
  }
  options.topology = *Topology::Create(locations);
  options.transport = CpuTransport(reach);
  options.lowering = lowering;
  return options;
}

inline PassResult Run(std::string_view module, const PassOptions& options) {
  auto made = RunPass(module, options);
  REQUIRE_MESSAGE(made.ok(), made.message());
  return *std::move(made);
}

inline std::vector<CollectiveRecord> Inspect(std::string_view module) {
  auto made = InspectModule(module);
  REQUIRE_MESSAGE(made.ok(), made.message());
  return *std::move(made);
}

inline bool Same(const CollectiveRecord& a, const CollectiveRecord& b) {
  return a.name == b.name && a.op == b.op && a.dtype == b.dtype && a.bytes == b.bytes && a.num_groups == b.num_groups &&
         a.group_size == b.group_size && a.num_pairs == b.num_pairs && a.reduction == b.reduction &&
         a.backend == b.backend && a.lowered == b.lowered && a.veto == b.veto && a.rule == b.rule &&
         a.reason == b.reason && a.computation == b.computation && a.in_loop == b.in_loop &&
         a.source_file == b.source_file && a.source_line == b.source_line;
}

// Every record as inspect gives it back, and a second run that changes nothing.
inline void CheckSettled(const PassResult& result, const PassOptions& options) {
  REQUIRE(result.changed);
  const std::vector<CollectiveRecord> read = Inspect(result.module);
  REQUIRE(read.size() == result.records.size());
  const PassResult again = Run(result.module, options);
  CHECK_FALSE(again.changed);
  CHECK(again.module.empty());
  REQUIRE(again.records.size() == result.records.size());
  for (size_t i = 0; i < read.size(); ++i) {
    CHECK(Same(read[i], result.records[i]));
    CHECK(Same(again.records[i], result.records[i]));
  }
}

}  // namespace xla_shmem::test

#endif  // XLA_SHMEM_TESTS_HLO_DECODED_H_
