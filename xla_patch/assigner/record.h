#ifndef XLA_SHMEM_ASSIGNER_RECORD_H_
#define XLA_SHMEM_ASSIGNER_RECORD_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "xla_patch/assigner/assigner.h"
#include "xla_patch/assigner/collective_spec.h"
#include "xla_patch/assigner/hierarchy.h"
#include "xla_patch/assigner/topology.h"
#include "xla_patch/assigner/transport.h"

namespace xla_shmem {

// What XLA:GPU wrote about how it runs a collective itself. Only reports read it.
struct XlaChoice {
  std::string kernel;  // "one-shot" or "two-shot": in a fusion, by a kernel of its own; "own" if its kind is not known
  std::string mode;    // of its memory: "symmetric", "peer" or "private"; "" if not set
  bool is_sync = false;
  int64_t operand_space = 0;  // memory space of operand 0 and of the first result: 0 is the default one
  int64_t result_space = 0;
};

// One row of the table: one collective, a start/done pair being one.
struct CollectiveRecord {
  std::string name;        // HLO name of the op, or of its start
  std::string op;          // "all-reduce", without "-start"
  std::string dtype;       // "f32"; "f32,bf16" for a mixed combined one
  int64_t bytes = 0;       // of the result, tuple elements summed
  int64_t num_groups = 0;  // of a permute: sets of devices connected by pairs
  int64_t group_size = 0;  // of the largest group, in devices; 0 where not known
  int64_t num_pairs = 0;
  std::string reduction;  // all-reduce and reduce-scatter: "sum", ..., or "none" if not a plain one
  std::string backend;    // "NVSHMEM", "DEFAULT" or "HIERARCHICAL": the decision
  std::string lowered;    // the same after vetoes
  std::string veto;       // why a decided NVSHMEM is not carried out; "" if it is
  std::string rule;
  std::string reason;
  std::string way;    // that the pass has chosen for XLA to take (way.h); "" for XLA's own choice, and for NVSHMEM
  std::string model;  // that the cost model expects DEFAULT to be faster; "" if it does not, or if it decided
  std::string computation;
  bool in_loop = false;     // runs inside a while loop
  int64_t executions = -1;  // in one run of the module; -1 if unknown
  std::string source_file;  // "" if the module does not name it
  int64_t source_line = 0;
  std::string part_of;  // name of the divided collective that this is a part of; "" for all others
  XlaChoice xla;
  int64_t num_domains = 0;  // Hierarchy::num_domains of a divided collective and its parts; 0 for all others
};

// Frontend attributes (xla.FrontendAttributes, a map of strings) that the pass writes on the collectives that it
// considers.
// Dumps show them, and InspectModule reads them back. All keys start with "xla_shmem.".
namespace attribute {
constexpr std::string_view kPrefix = "xla_shmem.";
constexpr const char* kBackend = "xla_shmem.backend";  // the decision
constexpr const char* kLowered = "xla_shmem.lowered";  // the decision after vetoes
constexpr const char* kRule = "xla_shmem.rule";
constexpr const char* kReason = "xla_shmem.reason";
constexpr const char* kVeto = "xla_shmem.veto";            // only when vetoed
constexpr const char* kWay = "xla_shmem.way";              // only if the pass chose one for XLA
constexpr const char* kModel = "xla_shmem.model";          // only if the cost model expects DEFAULT to be faster
constexpr const char* kGroups = "xla_shmem.groups";        // "<number>x<size>"
constexpr const char* kPairs = "xla_shmem.pairs";          // number of pairs of a permute
constexpr const char* kReduction = "xla_shmem.reduction";  // of an all-reduce or reduce-scatter
constexpr const char* kPartOf = "xla_shmem.part_of";       // on the parts of a divided collective: its name
constexpr const char* kDomains = "xla_shmem.domains";      // on the same: NVLink domains of a group of the whole
constexpr const char* kOp = "xla_shmem.op";                // on rewritten instructions: what they were
// "<file>:<line>" of the program. XLA numbers stack frames anew when it gets a module back, and keeps the old table
// (jax 0.10.2): after that the instruction's own metadata names other lines.
constexpr const char* kSource = "xla_shmem.source";
}  // namespace attribute

using Attributes = std::map<std::string, std::string>;

// The part of a record that follows from the spec and not from the decision.
CollectiveRecord DescribeSpec(const CollectiveSpec& spec);

// Why the form of an instruction cannot be changed to what was decided, whatever the transport.
struct FormVetoes {
  Unsupported call;       // to a call of ours
  Unsupported one_sided;  // to a one-sided collective of XLA's
};

// Decides, and writes into `record` what was decided and what is lowered. `trace`, if not null, gets all rules and
// vetoes. Returns how the collective is divided if it is HIERARCHICAL.
std::optional<Hierarchy> DecideAndRecord(const CollectiveSpec& spec, const Topology& topology, const Options& options,
                                         const Transport& transport, const FormVetoes& forms, CollectiveRecord* record,
                                         DecisionTrace* trace = nullptr);

// Decision and description as the attributes of an instruction, and back. Reading does not change fields whose
// attribute is missing.
Attributes RecordToAttributes(const CollectiveRecord& record);
void AttributesToRecord(const Attributes& attributes, CollectiveRecord* record);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_ASSIGNER_RECORD_H_
