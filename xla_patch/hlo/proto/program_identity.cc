#include "xla_patch/hlo/proto/program_identity.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "xla_patch/hlo/proto/schedule.h"
#include "xla_patch/hlo/proto/sources.h"
#include "xla_patch/types/stable_hash.h"

namespace xla_shmem::hlo {
namespace {

template <typename Numbers>
uint64_t HashInts(uint64_t hash, const Numbers& numbers) {
  hash = HashInt(hash, numbers.size());
  for (const auto number : numbers) hash = HashInt(hash, static_cast<uint64_t>(number));
  return hash;
}

// What both ends of a message must agree on, but the shapes.
uint64_t HashKind(const Collective& collective) {
  const CollectiveSpec& spec = collective.spec;
  uint64_t hash = HashInt(0, static_cast<uint64_t>(spec.op));
  hash = HashInt(hash, spec.reduction.has_value() ? 1 + static_cast<uint64_t>(*spec.reduction) : 0);
  hash = HashInts(HashInts(hash, spec.groups.devices), spec.groups.offsets);
  std::vector<std::pair<int64_t, int64_t>> pairs = spec.pairs;
  std::sort(pairs.begin(), pairs.end());  // their order means nothing
  hash = HashInt(hash, pairs.size());
  for (const auto& [source, target] : pairs) {
    hash = HashInt(HashInt(hash, static_cast<uint64_t>(source)), static_cast<uint64_t>(target));
  }
  return HashInts(hash, collective.fields.dimensions);
}

// Where the user's program issues it. The channel tells in which order collectives were traced.
uint64_t HashOrigin(uint64_t hash, const CollectiveFields& fields) {
  hash = HashInt(hash, static_cast<uint64_t>(fields.channel_id));
  // Ranks may have their sources in different folders.
  const std::string_view file = fields.source_file.substr(fields.source_file.rfind('/') + 1);
  return HashInt(HashBytes(hash, file), static_cast<uint64_t>(fields.source_line));
}

uint64_t HashShape(uint64_t hash, const Shape& shape) {
  hash = HashInt(hash, static_cast<uint64_t>(shape.element_type));
  hash = HashInts(HashInts(hash, shape.dimensions), shape.minor_to_major);
  return HashInt(hash, static_cast<uint64_t>(shape.element_size_in_bits));
}

// Numbers of the collectives in the order in which `instructions` are scheduled, computation after computation.
std::vector<size_t> InScheduledOrder(const Module& module, const std::vector<size_t>& instructions,
                                     const std::vector<Collective>& collectives) {
  const Schedule schedule(module.schedule);
  std::vector<std::pair<size_t, size_t>> places(collectives.size());  // computation, place there
  std::unordered_map<int64_t, size_t> place_of_id;
  size_t listed = module.computations.size();
  for (size_t i = 0; i < collectives.size(); ++i) {
    const size_t computation = collectives[i].computation;
    if (computation != listed) {
      listed = computation;
      place_of_id.clear();
      const std::vector<int64_t> sequence = schedule.Sequence(module.computations[computation].id);
      for (size_t place = 0; place < sequence.size(); ++place) place_of_id[sequence[place]] = place;
    }
    const auto found = place_of_id.find(module.instructions[instructions[i]].id);
    places[i] = {computation, found == place_of_id.end() ? instructions[i] : found->second};
  }
  std::vector<size_t> order(collectives.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return std::pair(places[a], a) < std::pair(places[b], b); });
  return order;
}

// Sets the sources of all collectives, if data of one operand could be taken for those of another.
void SetSources(const Module& module, const std::vector<uint64_t>& kinds_of_ops, std::vector<Collective>* collectives) {
  std::unordered_set<uint64_t> kinds;
  size_t operands = 0;
  for (size_t i = 0; i < collectives->size(); ++i) {
    Collective& collective = (*collectives)[i];
    const std::vector<const Shape*> leaves = collective.result.Leaves();
    const std::vector<int64_t>& ids = collective.fields.operand_ids;
    for (size_t j = 0; j < ids.size(); ++j) {
      const uint64_t kind = j < leaves.size() ? HashShape(kinds_of_ops[i], *leaves[j]) : HashInt(kinds_of_ops[i], j);
      collective.identity.sources.emplace_back(kind, 0);
      kinds.insert(kind);
      ++operands;
    }
  }
  if (kinds.size() == operands) {
    for (Collective& collective : *collectives) collective.identity.sources.clear();
    return;
  }
  const std::vector<uint64_t> all = FindSources(module);
  for (Collective& collective : *collectives) {
    const InstructionIndex index(module, module.computations[collective.computation]);
    for (size_t j = 0; j < collective.fields.operand_ids.size(); ++j) {
      const Instruction* const operand = index.Find(collective.fields.operand_ids[j]);
      if (operand != nullptr) collective.identity.sources[j].second = all[operand - module.instructions.data()];
    }
  }
}

std::vector<Branch> BranchesOf(const Module& module, size_t computation) {
  std::vector<Branch> branches;
  while (computation != module.entry) {
    const Computation& callee = module.computations[computation];
    if (module.instructions[callee.caller_instruction].opcode.op_class == OpClass::kConditional) {
      branches.push_back({static_cast<int64_t>(callee.caller_instruction), static_cast<int64_t>(callee.caller_place)});
    }
    computation = callee.caller;
  }
  return branches;
}

}  // namespace

uint64_t IdentifyCollectives(const Module& module, const std::vector<size_t>& places,
                             std::vector<Collective>* collectives) {
  const std::vector<size_t> order = InScheduledOrder(module, places, *collectives);
  uint64_t form = HashBytes(HashBytes(0, module.name), module.device_assignment);
  std::vector<uint64_t> kinds;
  kinds.reserve(collectives->size());
  for (const Collective& collective : *collectives) kinds.push_back(HashKind(collective));
  for (const size_t i : order) {
    form = HashOrigin(HashInt(form, kinds[i]), (*collectives)[i].fields);
    for (const Shape* leaf : (*collectives)[i].result.Leaves()) form = HashShape(form, *leaf);
  }
  form = std::max<uint64_t>(form, 1);
  SetSources(module, kinds, collectives);
  for (size_t place = 0; place < order.size(); ++place) {
    CollectiveIdentity& identity = (*collectives)[order[place]].identity;
    identity.form = form;
    identity.place = static_cast<int64_t>(place);
    identity.branches = BranchesOf(module, (*collectives)[order[place]].computation);
  }
  return form;
}

std::string DescribeContents(const Collective& collective) {
  std::string text = IsReducing(collective.spec.op) && collective.spec.reduction.has_value()
                         ? std::string(ReductionName(collective.spec.reduction)) + " "
                         : "";
  text += ShapeText(collective.result);
  constexpr size_t kMaxText = 200;  // combined collectives may have hundreds of arrays
  if (text.size() > kMaxText) return text.substr(0, kMaxText) + "...";
  const auto is_by_rows = [](const Shape* leaf) {
    return std::is_sorted(leaf->minor_to_major.rbegin(), leaf->minor_to_major.rend());
  };
  const std::vector<const Shape*> leaves = collective.result.Leaves();
  if (std::all_of(leaves.begin(), leaves.end(), is_by_rows)) return text;
  text += " with layout";
  for (const Shape* leaf : leaves) {
    text += " {";
    for (size_t i = 0; i < leaf->minor_to_major.size(); ++i) {
      text += (i == 0 ? "" : ",") + std::to_string(leaf->minor_to_major[i]);
    }
    text += '}';
  }
  return text;
}

}  // namespace xla_shmem::hlo
