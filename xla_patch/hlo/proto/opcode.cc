#include "xla_patch/hlo/proto/opcode.h"

namespace xla_shmem::hlo {
namespace {

struct Entry {
  std::string_view name;
  Opcode opcode;
};

constexpr Entry kOpcodes[] = {
    {"all-reduce", {OpClass::kCollective, OpKind::kAllReduce}},
    {"all-reduce-start", {OpClass::kCollectiveStart, OpKind::kAllReduce}},
    {"all-reduce-done", {OpClass::kCollectiveDone, OpKind::kAllReduce}},
    {"collective-permute", {OpClass::kCollective, OpKind::kCollectivePermute}},
    {"collective-permute-start", {OpClass::kCollectiveStart, OpKind::kCollectivePermute}},
    {"collective-permute-done", {OpClass::kCollectiveDone, OpKind::kCollectivePermute}},
    {"all-gather", {OpClass::kCollective, OpKind::kAllGather}},
    {"all-gather-start", {OpClass::kCollectiveStart, OpKind::kAllGather}},
    {"all-gather-done", {OpClass::kCollectiveDone, OpKind::kAllGather}},
    {"reduce-scatter", {OpClass::kCollective, OpKind::kReduceScatter}},
    {"all-to-all", {OpClass::kCollective, OpKind::kAllToAll}},
    {"collective-broadcast", {OpClass::kCollective, OpKind::kCollectiveBroadcast}},
    {"ragged-all-to-all", {OpClass::kCollective, OpKind::kRaggedAllToAll}},
    {"async-start", {OpClass::kAsyncStart, OpKind::kAllReduce}},
    {"async-update", {OpClass::kAsyncUpdate, OpKind::kAllReduce}},
    {"async-done", {OpClass::kAsyncDone, OpKind::kAllReduce}},
    {"while", {OpClass::kWhile, OpKind::kAllReduce}},
    {"conditional", {OpClass::kConditional, OpKind::kAllReduce}},
    {"fusion", {OpClass::kFusion, OpKind::kAllReduce}},
    {"custom-call", {OpClass::kCustomCall, OpKind::kAllReduce}},
};

// Most instructions are arithmetic: two characters tell that none of the names above can match.
bool MayMatter(std::string_view opcode) {
  if (opcode.size() < 5) {
    return false;
  }
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

}  // namespace

Opcode ClassifyOpcode(std::string_view opcode) {
  if (MayMatter(opcode)) {
    for (const Entry& entry : kOpcodes) {
      if (entry.name == opcode) {
        return entry.opcode;
      }
    }
  }
  return Opcode();
}

}  // namespace xla_shmem::hlo
