#include "xla_patch/hlo/rewrite/pass.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

#include "xla_patch/assigner/vetoes.h"
#include "xla_patch/hlo/proto/attributes.h"
#include "xla_patch/hlo/proto/collective_reader.h"
#include "xla_patch/hlo/proto/device_assignment.h"
#include "xla_patch/hlo/proto/program_identity.h"
#include "xla_patch/hlo/proto/record.h"
#include "xla_patch/hlo/rewrite/aliased_parameters.h"
#include "xla_patch/hlo/rewrite/all_to_all_folding.h"
#include "xla_patch/hlo/rewrite/collective_order.h"
#include "xla_patch/hlo/rewrite/custom_call.h"
#include "xla_patch/hlo/rewrite/editor.h"
#include "xla_patch/hlo/rewrite/hierarchical_collective.h"
#include "xla_patch/hlo/rewrite/hierarchical_collective_on_gpu.h"
#include "xla_patch/hlo/rewrite/marks.h"
#include "xla_patch/hlo/rewrite/new_numbers.h"
#include "xla_patch/hlo/rewrite/several_gpus.h"
#include "xla_patch/hlo/rewrite/xla_ways.h"

namespace xla_shmem {
namespace {

using hlo::Collective;
using hlo::CollectiveForm;
using hlo::CustomCall;

class Pass {
 public:
  Pass(const hlo::Module& module, const DeviceAssignment& assignment, const PassOptions& options)
      : module_(module),
        options_(options),
        copies_parameters_(options.copy_aliased_parameters && hlo::HasAliasedParameters(module)),
        whole_arrays_(module),
        numbers_(module, assignment) {
    if (copies_parameters_) {
      std::vector<hlo::InstructionEdit> tried;
      if (const Status copied = hlo::CopyAliasedParameters(module, &tried); !copied.ok()) {
        unsupported_parameters_ = copied.message();
      }
    }
  }

  // Adds the record of the collective to `records`, or those of its parts if it is divided.
  void Visit(const Collective& collective, std::vector<CollectiveRecord>* records) {
    const CollectiveSpec& spec = collective.spec;
    CollectiveRecord decided = hlo::DescribeCollective(module_, collective);
    CollectiveRecord* const record = &decided;
    const std::optional<Hierarchy> hierarchy =
        DecideAndRecord(spec, options_.topology, options_.assign, options_.transport, Forms(collective), record);
    if (hierarchy.has_value() && options_.lowering != Lowering::kNone) {
      Divide(collective, *hierarchy, *record, records);
      return;
    }
    const bool is_replaced = record->lowered == BackendName(Backend::kNvshmem) && options_.lowering != Lowering::kNone;
    const bool is_changed = !record->way.empty() && options_.lowering == Lowering::kGpu;
    if (is_replaced) record->xla = {};
    if (is_changed) record->xla.kernel.clear();
    if (is_changed && record->way == InfoOf(Way::kOneSided).name) record->xla.mode = "symmetric";
    records->push_back(decided);
    if (!IsConsidered(spec, options_.assign)) return;
    Attributes attributes = RecordToAttributes(*record);
    if (is_changed) {
      ChangeWay(collective, *record, attributes);
      return;
    }
    if (is_replaced) {
      attributes[attribute::kOp] = record->op;
      Replace(collective, attributes);
      return;
    }
    Annotate(collective.op_computation, collective.op, attributes);
    if (collective.done >= 0) {
      // XLA keeps the attributes of either one when it makes a pair synchronous again.
      Annotate(collective.computation, collective.done, attributes);
      if (collective.instruction != collective.op) Annotate(collective.computation, collective.instruction, attributes);
    }
  }

  // Empty if only attributes changed but returning the module would cost copies of parameters.
  std::vector<hlo::InstructionEdit> TakeEdits() {
    if (copies_parameters_ && (!has_replaced_ || !hlo::CopyAliasedParameters(module_, &edits_).ok())) return {};
    // A done comes after later starts.
    const auto before = [](const hlo::InstructionEdit& a, const hlo::InstructionEdit& b) {
      return a.instruction < b.instruction;
    };
    std::sort(edits_.begin(), edits_.end(), before);
    return std::move(edits_);
  }

  const std::set<size_t>& removed_computations() const { return removed_computations_; }
  // Whether calls of ours have taken the place of collectives.
  bool has_calls() const { return has_calls_; }

 private:
  // Why this collective cannot be changed, whatever the transport.
  FormVetoes Forms(const Collective& collective) const {
    if (unsupported_parameters_.has_value()) return {unsupported_parameters_, unsupported_parameters_};
    return hlo::FormsOf(collective, options_.lowering);
  }

  void ChangeWay(const Collective& collective, const CollectiveRecord& record, const Attributes& attributes) {
    has_replaced_ = true;
    std::vector<hlo::InstructionEdit> edits =
        record.way == InfoOf(Way::kOneSided).name
            ? hlo::MakeOneSided(module_, collective, attributes, &numbers_)
            : hlo::PutBackFromFusion(module_, collective, attributes, &removed_computations_);
    std::move(edits.begin(), edits.end(), std::back_inserter(edits_));
  }

  // Skips an instruction that already has these attributes, so that a second run changes nothing.
  void Annotate(size_t computation, size_t instruction, const Attributes& attributes) {
    const std::string_view body = module_.instructions[instruction].body;
    if (hlo::ReadOwnAttributes(hlo::AttributeFields(body)) != attributes) {
      edits_.push_back({computation, instruction, hlo::WithAttributes(body, attributes), {}});
    }
  }

  // XLA:GPU leaves all-to-alls of one array as they are.
  std::optional<hlo::WholeArrays> FindWholeArrays(const Collective& collective) {
    return options_.lowering == Lowering::kCpu ? whole_arrays_.Find(collective) : std::nullopt;
  }

  void Divide(const Collective& collective, const Hierarchy& hierarchy, const CollectiveRecord& record,
              std::vector<CollectiveRecord>* records) {
    has_replaced_ = has_calls_ = true;
    if (options_.lowering == Lowering::kGpu) {
      hlo::DividedCollectiveOnGpu divided =
          hlo::DivideCollectiveOnGpu(module_, options_.topology, collective, hierarchy, record, &numbers_);
      std::move(divided.edits.begin(), divided.edits.end(), std::back_inserter(edits_));
      std::move(divided.parts.begin(), divided.parts.end(), std::back_inserter(*records));
      return;
    }
    const std::optional<hlo::WholeArrays> whole = FindWholeArrays(collective);
    hlo::DividedCollective divided =
        hlo::DivideCollective(module_, options_.topology, collective, hierarchy, record, whole, &numbers_);
    edits_.push_back(std::move(divided.edit));
    if (whole.has_value()) Remove(collective, *whole);
    std::move(divided.parts.begin(), divided.parts.end(), std::back_inserter(*records));
  }

  void Remove(const Collective& collective, const hlo::WholeArrays& whole) {
    for (const size_t removed : whole.removed) edits_.push_back({collective.computation, removed, "", {}});
    removed_computations_.insert(whole.removed_computations.begin(), whole.removed_computations.end());
  }

  void Replace(const Collective& collective, const Attributes& attributes) {
    has_replaced_ = has_calls_ = true;
    const auto body = [&](size_t instruction) { return module_.instructions[instruction].body; };
    const auto replace = [&](size_t instruction, std::string new_body) {
      edits_.push_back({collective.computation, instruction, std::move(new_body), {}});
    };
    const auto call = [&](size_t instruction, const CustomCall& call) {
      replace(instruction, hlo::AsCustomCall(body(instruction), call, attributes));
    };
    if (const auto whole = FindWholeArrays(collective); whole.has_value()) {
      CustomCall whole_call = hlo::SyncCall(module_, collective, options_.topology);
      whole_call.operands = whole->operands;
      if (whole->place != collective.instruction) {
        whole_call.id = module_.instructions[whole->place].id;
        whole_call.shape = module_.instructions[whole->place].shape;
      }
      replace(whole->place, hlo::AsCustomCall(body(collective.instruction), whole_call, attributes));
      Remove(collective, *whole);
    } else if (!hlo::IsPair(collective)) {
      call(collective.instruction, hlo::SyncCall(module_, collective, options_.topology));
    } else if (!collective.has_work_between) {
      call(collective.instruction, hlo::SyncCall(module_, collective, options_.topology));
      replace(collective.done, hlo::AsBarrier(body(collective.done), attributes));
    } else {
      call(collective.instruction, hlo::StartCall(module_, collective, options_.topology));
      call(collective.done, hlo::DoneCall(module_, collective, options_.topology));
    }
  }

  const hlo::Module& module_;
  const PassOptions& options_;
  const bool copies_parameters_;
  Unsupported unsupported_parameters_;  // why they cannot be copied
  bool has_replaced_ = false;
  bool has_calls_ = false;
  hlo::WholeArrayFinder whole_arrays_;
  hlo::NewNumbers numbers_;
  std::vector<hlo::InstructionEdit> edits_;
  std::set<size_t> removed_computations_;
};

// Replaces the module of `result` by what `rewrite` makes of it, unless that is empty. Returns whether it did.
template <typename Rewrite>
Result<bool> RewriteAgain(std::string_view unchanged, const PassOptions& options, const Rewrite& rewrite,
                          PassResult* result) {
  const Result<hlo::Module> module = hlo::ReadModule(result->changed ? result->module : unchanged);
  if (!module.ok()) return module.status();
  const Result<DeviceAssignment> assignment = hlo::ReadAssignment(*module, options.topology);
  if (!assignment.ok()) return assignment.status();
  Result<std::string> rewritten = rewrite(*module, *assignment);
  if (!rewritten.ok()) return rewritten.status();
  if (rewritten->empty()) return false;
  result->module = *std::move(rewritten);
  result->changed = true;
  return true;
}

// Returns the form of the module.
uint64_t Identify(const hlo::Module& module, std::vector<Collective>* collectives) {
  hlo::WholeArrayFinder whole_arrays(module);
  std::vector<size_t> places;
  for (const Collective& collective : *collectives) {
    const std::optional<hlo::WholeArrays> whole = whole_arrays.Find(collective);
    places.push_back(whole.has_value() ? whole->place : collective.instruction);
  }
  return hlo::IdentifyCollectives(module, places, collectives);
}

}  // namespace

Result<PassResult> RunPass(std::string_view bytes, const PassOptions& options) {
  const Result<hlo::Module> module = hlo::ReadModule(bytes);
  if (!module.ok()) return module.status();
  const Result<DeviceAssignment> assignment = hlo::ReadAssignment(*module, options.topology);
  if (!assignment.ok()) return assignment.status();
  Result<std::vector<Collective>> collectives = hlo::FindCollectives(*module, *assignment);
  if (!collectives.ok()) return collectives.status();
  const uint64_t form = options.lowering == Lowering::kCpu ? Identify(*module, &*collectives) : uint64_t{0};
  PassResult result;
  const ModulePlacement placement = hlo::PlaceModule(*assignment, options.topology);
  Pass pass(*module, *assignment, options);
  for (Collective& collective : *collectives) {
    collective.spec.module = placement;
    if (options.lowering == Lowering::kCpu) collective.spec.unsupported_by_xla = UnsupportedByXlaCpu(collective.spec);
    if (collective.form == CollectiveForm::kLowered || hlo::IsPart(collective) || hlo::HasChosenWay(collective)) {
      // An earlier run wrote it.
      if (CollectiveRecord written; hlo::ReadRecord(*module, collective, &written)) {
        result.records.push_back(std::move(written));
      }
      continue;
    }
    pass.Visit(collective, &result.records);
  }
  const std::vector<hlo::InstructionEdit> edits = pass.TakeEdits();
  result.changed = !edits.empty();
  bool has_moved = false;  // collectives stand in another order than their records
  if (result.changed) {
    result.module = hlo::ApplyEdits(*module, edits, pass.removed_computations());
    // On GPU the parts of a pair lie apart.
    has_moved = options.lowering == Lowering::kGpu &&
                std::any_of(result.records.begin(), result.records.end(),
                            [](const CollectiveRecord& record) { return !record.part_of.empty(); });
  }
  if (options.one_at_a_time && options.lowering == Lowering::kCpu) {
    const Result<bool> ordered = RewriteAgain(bytes, options, hlo::OrderCollectives, &result);
    if (!ordered.ok()) return ordered.status();
    has_moved = has_moved || *ordered;
  }
  // Last, because the calls stand next to the collectives as they are then. They move no record.
  const bool keeps_module = options.marks_keep_aliasing && !result.changed && hlo::HasAliasedParameters(*module);
  if (options.mark_default_collectives && options.lowering == Lowering::kCpu && !collectives->empty() &&
      !keeps_module) {
    const auto mark = [&](const hlo::Module& rewritten, const DeviceAssignment& devices) {
      return hlo::MarkCollectives(rewritten, devices, options.topology, module->structure_hash, form);
    };
    XLA_SHMEM_RETURN_IF_ERROR(RewriteAgain(bytes, options, mark, &result).status());
  }
  if (options.lowering == Lowering::kGpu && pass.has_calls()) {
    const auto fit = [&](const hlo::Module& rewritten, const DeviceAssignment& devices) {
      return hlo::FitSeveralGpus(rewritten, devices, options.topology, module->structure_hash);
    };
    XLA_SHMEM_RETURN_IF_ERROR(RewriteAgain(bytes, options, fit, &result).status());
  }
  if (has_moved) {
    Result<PassResult> written = RunPass(result.module, options);
    if (!written.ok()) return written.status();
    result.records = std::move(written->records);
  }
  return result;
}

}  // namespace xla_shmem
