#include "xla_patch/hlo/proto/opcode.h"

namespace xla_shmem::hlo {
namespace {

struct OpcodeEntry {
  std::string_view name;
  OpClass op_class;
};

// Besides the collectives.
constexpr OpcodeEntry kOpcodes[] = {
    {"async-start", OpClass::kAsyncStart},  {"async-update", OpClass::kAsyncUpdate},
    {"async-done", OpClass::kAsyncDone},    {"while", OpClass::kWhile},
    {"conditional", OpClass::kConditional}, {"fusion", OpClass::kFusion},
    {"custom-call", OpClass::kCustomCall},
};

// Most instructions are arithmetic: their first two characters already differ from all names above.
constexpr bool MayMatter(std::string_view opcode) {
  if (opcode.size() < 5) return false;
  switch (opcode[0]) {
    case 'a':
      return opcode[1] == 'l' || opcode[1] == 's';
    case 'c':
      return opcode[1] == 'o' || opcode[1] == 'u';
    case 'r':
      return opcode[1] == 'e' || opcode[1] == 'a';
    case 'f':
      return opcode[1] == 'u';
    case 'w':
      return true;
    default:
      return false;
  }
}

constexpr bool AllCollectivesMayMatter() {
  for (const CollectiveOpInfo& info : kCollectiveOps) {
    if (!MayMatter(info.name)) return false;
  }
  return true;
}
static_assert(AllCollectivesMayMatter(), "MayMatter drops a collective");

OpClass ClassifyCollective(const CollectiveOpInfo& info, std::string_view opcode) {
  const std::string_view name = info.name;
  if (opcode.substr(0, name.size()) != name) return OpClass::kOther;
  const std::string_view rest = opcode.substr(name.size());
  if (rest.empty()) return OpClass::kCollective;
  if (!info.Has(op_trait::kStartAndDone)) return OpClass::kOther;
  return rest == "-start" ? OpClass::kCollectiveStart : rest == "-done" ? OpClass::kCollectiveDone : OpClass::kOther;
}

}  // namespace

Opcode ClassifyOpcode(std::string_view opcode) {
  if (!MayMatter(opcode)) return Opcode();
  for (const CollectiveOpInfo& info : kCollectiveOps) {
    if (const OpClass op_class = ClassifyCollective(info, opcode); op_class != OpClass::kOther) {
      return {op_class, info.op};
    }
  }
  for (const OpcodeEntry& entry : kOpcodes) {
    if (entry.name == opcode) return {entry.op_class, CollectiveOp::kAllReduce};
  }
  return Opcode();
}

}  // namespace xla_shmem::hlo
