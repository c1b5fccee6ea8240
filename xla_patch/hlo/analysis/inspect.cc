#include "xla_patch/hlo/analysis/inspect.h"

#include <optional>
#include <unordered_map>
#include <utility>

#include "xla_patch/assigner/vetoes.h"
#include "xla_patch/hlo/proto/attributes.h"
#include "xla_patch/hlo/proto/collective_reader.h"
#include "xla_patch/hlo/proto/device_assignment.h"
#include "xla_patch/hlo/proto/mlir_dictionary.h"
#include "xla_patch/hlo/proto/record.h"
#include "xla_patch/hlo/proto/shape.h"
#include "xla_patch/hlo/rewrite/xla_ways.h"

namespace xla_shmem {
namespace {

class Reader {
 public:
  explicit Reader(const Topology& topology) {
    for (const DeviceLocation& device : topology.devices()) device_of_pe_[device.pe] = device.device_id;
  }

  // Restores what a rewritten collective was: op and reduction from its attributes, participants from the arguments of
  // the call. False if they are missing, or if the topology has no such PE.
  bool Restore(const hlo::Collective& collective, const CollectiveRecord& written, CollectiveSpec* spec) const {
    const std::optional<CollectiveOp> op = OpNamed(written.op);
    const std::string_view arguments = collective.fields.backend_config;
    if (!op.has_value()) return false;
    spec->op = *op;
    spec->reduction = ReductionNamed(written.reduction);
    std::vector<int64_t> devices;
    if (UsesPairs(spec->op)) {
      if (!hlo::ReadInts(arguments, "pairs", &devices) || devices.size() % 2 != 0 || !ToDevices(&devices)) return false;
      for (size_t i = 0; i < devices.size(); i += 2) spec->pairs.emplace_back(devices[i], devices[i + 1]);
      return true;
    }
    return hlo::ReadInts(arguments, "groups", &spec->groups.devices) && ToDevices(&spec->groups.devices) &&
           hlo::ReadInts(arguments, "group_offsets", &spec->groups.offsets) && AreOffsets(spec->groups);
  }

 private:
  bool ToDevices(std::vector<int64_t>* pes) const {
    for (int64_t& pe : *pes) {
      const auto found = device_of_pe_.find(pe);
      if (found == device_of_pe_.end()) return false;
      pe = found->second;
    }
    return true;
  }

  static bool AreOffsets(const DeviceGroups& groups) {
    int64_t last = 0;
    for (const int64_t offset : groups.offsets) {
      if (offset < last) return false;
      last = offset;
    }
    return !groups.offsets.empty() && groups.offsets[0] == 0 && last == static_cast<int64_t>(groups.devices.size());
  }

  std::unordered_map<int64_t, int64_t> device_of_pe_;
};

}  // namespace

Result<std::vector<CollectiveRecord>> InspectModule(std::string_view bytes) {
  const Result<hlo::Module> module = hlo::ReadModule(bytes);
  if (!module.ok()) return module.status();
  const Result<DeviceAssignment> assignment = module->device_assignment.empty()
                                                  ? DeviceAssignment::Unknown()
                                                  : hlo::ParseDeviceAssignment(module->device_assignment);
  if (!assignment.ok()) return assignment.status();
  const Result<std::vector<hlo::Collective>> collectives = hlo::FindCollectives(*module, *assignment);
  if (!collectives.ok()) return collectives.status();
  std::vector<CollectiveRecord> records;
  for (const hlo::Collective& collective : *collectives) {
    CollectiveRecord record;
    if (hlo::ReadRecord(*module, collective, &record)) records.push_back(std::move(record));
  }
  return records;
}

Result<std::vector<Explanation>> ExplainModule(std::string_view bytes, const PassOptions& options) {
  const Result<hlo::Module> module = hlo::ReadModule(bytes);
  if (!module.ok()) return module.status();
  const Result<DeviceAssignment> assignment = hlo::ReadAssignment(*module, options.topology);
  if (!assignment.ok()) return assignment.status();
  Result<std::vector<hlo::Collective>> collectives = hlo::FindCollectives(*module, *assignment);
  if (!collectives.ok()) return collectives.status();
  std::vector<Explanation> explanations;
  const Reader reader(options.topology);
  const ModulePlacement placement = hlo::PlaceModule(*assignment, options.topology);
  for (hlo::Collective& collective : *collectives) {
    Explanation explanation;
    if (!hlo::ReadRecord(*module, collective, &explanation.written)) continue;
    explanation.decided = explanation.written;
    explanation.shape = hlo::ShapeText(collective.result);
    CollectiveSpec& spec = collective.spec;
    spec.module = placement;
    const bool is_lowered = collective.form == hlo::CollectiveForm::kLowered;
    const bool is_part = !explanation.written.part_of.empty();  // decided with the whole, which is gone
    if (is_part) {
      explanations.push_back(std::move(explanation));
      continue;
    }
    if (!is_lowered || reader.Restore(collective, explanation.written, &spec)) {
      explanation.decided.veto.clear();
      // It was in a fusion until the pass took it out.
      if (explanation.written.way == InfoOf(Way::kNccl).name) spec.is_fused = true;
      if (options.lowering == Lowering::kCpu) spec.unsupported_by_xla = UnsupportedByXlaCpu(spec);
      DecideAndRecord(spec, options.topology, options.assign, options.transport,
                      is_lowered ? FormVetoes() : hlo::FormsOf(collective, options.lowering), &explanation.decided,
                      &explanation.trace);
      explanation.groups = std::move(spec.groups);
      explanation.pairs = std::move(spec.pairs);
    }
    explanations.push_back(std::move(explanation));
  }
  return explanations;
}

}  // namespace xla_shmem
