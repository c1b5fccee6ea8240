#include "xla_patch/hlo/rewrite/hierarchical_collective_on_gpu.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "xla_patch/hlo/proto/field_numbers.h"
#include "xla_patch/hlo/proto/wire.h"
#include "xla_patch/hlo/rewrite/call_arguments.h"
#include "xla_patch/hlo/rewrite/edited_collective.h"
#include "xla_patch/hlo/rewrite/new_instructions.h"
#include "xla_patch/hlo/rewrite/part_call.h"
#include "xla_patch/types/part_target.h"

namespace xla_shmem::hlo {
namespace {

// A SHMEM call in the domain.
struct LocalCall {
  CollectiveOp op = CollectiveOp::kAllReduce;
  const char* target = "";
  const char* does = "";  // for its record
};

class DivisionOnGpu {
 public:
  DivisionOnGpu(const Module& module, const Topology& topology, const Collective& collective,
                const Hierarchy& hierarchy, const CollectiveRecord& record, NewNumbers* numbers)
      : module_(module),
        topology_(topology),
        numbers_(*numbers),
        collective_(collective),
        hierarchy_(hierarchy),
        record_(record),
        op_(collective.spec.op),
        leaves_(collective.result.Leaves()),
        operands_(collective.fields.operand_ids) {}

  DividedCollectiveOnGpu Run() {
    DecideShapes();
    if (IsReducing(op_)) CallBefore();
    ChangeCollective();
    switch (hierarchy_.division) {
      case Division::kAllReduce:
        CallBehind({CollectiveOp::kAllGather, PartTargetName(PartTarget::kAllGather),
                    "gathers the chunks in each NVLink domain"});
        break;
      case Division::kAllGather:
        CallBehind({op_, PartTargetName(PartTarget::kAllGather), "gathers all parts in each NVLink domain"});
        break;
      case Division::kReduceScatter:
        break;
      case Division::kAllToAll:
        CallBehind({op_, PartTargetName(PartTarget::kAllToAll), "exchanges in each NVLink domain"});
        break;
      case Division::kPermute:
        CallBehind({op_, PartTargetName(PartTarget::kPermute), "moves the pairs in each NVLink domain"});
        break;
      case Division::kBroadcast:
        CallBehind({op_, InfoOf(op_).target, "broadcasts in each NVLink domain"});
        break;
    }
    return std::move(divided_);
  }

 private:
  // Shapes of the part between domains, where they are not those of the whole.
  void DecideShapes() {
    const int64_t dimension = collective_.fields.dimensions.empty() ? 0 : collective_.fields.dimensions[0];
    for (const Shape* leaf : leaves_) {
      const auto place = static_cast<size_t>(dimension);
      const int64_t size = place < leaf->dimensions.size() ? leaf->dimensions[place] : 0;
      if (op_ == CollectiveOp::kAllReduce) {
        const auto elements = ShapeBytes(*leaf) / static_cast<int64_t>(ElementBytes(leaf->element_type));
        const std::string chunk = VectorShape(leaf->element_type, elements / local() + elements % local());
        operand_shapes_.push_back(chunk);
        result_shapes_.push_back(chunk);
      } else if (op_ == CollectiveOp::kAllGather) {
        result_shapes_.push_back(WithDimension(leaf->proto, place, size / local()));
      } else if (op_ == CollectiveOp::kReduceScatter) {
        operand_shapes_.push_back(WithDimension(leaf->proto, place, size * hierarchy_.num_domains));
      }
    }
  }

  void CallBefore() {
    const std::string shape = OneOrTuple(operand_shapes_);
    CustomCall call;
    call.target = PartTargetName(PartTarget::kReduceScatter);
    call.shape = shape;
    call.id = NewId();
    call.name = collective_.spec.name + ".local-reduce-scatter";
    call.operands = operands_;
    const CollectiveSpec spec = LocalSpec(CollectiveOp::kReduceScatter, *call.name, BytesOf(operand_shapes_));
    call.backend_config = Arguments(spec, 1);
    const Attributes attributes = RecordPart(
        spec, Backend::kNvshmem,
        op_ == CollectiveOp::kAllReduce ? "reduces to chunks in each NVLink domain" : "reduces in each NVLink domain",
        record_, &divided_.parts);
    before_.push_back({AsCustomCall(BodyOf(collective_.instruction), call, attributes), *call.id});
    operands_ = TakeApart(*call.id, operand_shapes_, "scattered", &before_);
  }

  // The collective, between domains.
  void ChangeCollective() {
    CollectiveSpec spec = collective_.spec;
    InstructionChange change;
    if (op_ == CollectiveOp::kCollectivePermute) {
      spec.pairs = hierarchy_.across_pairs;
      change.pairs = Numbered(hierarchy_.across_pairs);
    } else {
      spec.groups = op_ == CollectiveOp::kCollectiveBroadcast ? Roots() : hierarchy_.across;
      change.groups.emplace();
      for (const int64_t device : spec.groups.devices) change.groups->ids.push_back(numbers_.OfDevice(device));
      change.groups->offsets = spec.groups.offsets;
    }
    if (!result_shapes_.empty()) spec.bytes = BytesOf(result_shapes_);
    change.attributes = RecordPart(spec, Backend::kDefault, Does(), record_, &divided_.parts);
    if (!result_shapes_.empty()) change.shape = OneOrTuple(result_shapes_);
    switch (collective_.form) {
      case CollectiveForm::kWrapped:
        Replace(collective_.op_computation, collective_.op, ChangeInstruction(BodyOf(collective_.op), change));
        ChangeParameters();
        change = {};
        change.shape = WithElements(module_.instructions[collective_.instruction].shape, NewElements(true));
        break;
      case CollectiveForm::kStartDone:
        if (op_ != CollectiveOp::kAllReduce) {
          change.shape = WithElements(module_.instructions[collective_.instruction].shape, NewElements(false));
        }
        break;
      case CollectiveForm::kSync:
      case CollectiveForm::kLowered:
        break;
    }
    change.operands = operands_;
    if (IsPair(collective_) || op_ == CollectiveOp::kReduceScatter) {
      ReplaceBehind(collective_.instruction, ChangeInstruction(BodyOf(collective_.instruction), change));
      return;
    }
    change.id = result_id_ = NewId();
    before_.push_back({ChangeInstruction(BodyOf(collective_.instruction), change), *change.id});
  }

  // In the place of the collective or of its done, whose users it has.
  void CallBehind(const LocalCall& part) {
    const size_t place = IsPair(collective_) ? static_cast<size_t>(collective_.done) : collective_.instruction;
    if (IsPair(collective_)) {
      InstructionChange done;
      done.id = result_id_ = NewId();
      if (!result_shapes_.empty()) done.shape = OneOrTuple(result_shapes_);
      before_.push_back({ChangeInstruction(BodyOf(place), done), *done.id});
    }
    std::vector<std::string> shapes = result_shapes_;
    if (shapes.empty()) {
      for (const Shape* leaf : leaves_) shapes.emplace_back(leaf->proto);
    }
    const std::vector<int64_t> received = TakeApart(result_id_, shapes, "between", &before_);
    CustomCall call;
    call.target = part.target;
    call.shape = collective_.result.proto;
    call.id = module_.instructions[place].id;
    call.name = collective_.spec.name + ".local-" + OpName(part.op);
    call.operands = received;
    if (op_ == CollectiveOp::kCollectivePermute) {
      call.operands = collective_.fields.operand_ids;
      call.operands->insert(call.operands->end(), received.begin(), received.end());
      for (size_t i = 0; i < received.size(); ++i) {
        call.aliasing.push_back(
            {collective_.result.IsTuple() ? std::vector<int64_t>{static_cast<int64_t>(i)} : std::vector<int64_t>{},
             static_cast<int64_t>(received.size() + i),
             {}});
      }
    }
    const CollectiveSpec spec = LocalSpec(part.op, *call.name, collective_.spec.bytes);
    call.backend_config = Arguments(spec, 2);
    const Attributes attributes = RecordPart(spec, Backend::kNvshmem, part.does, record_, &divided_.parts);
    ReplaceBehind(place, AsCustomCall(BodyOf(place), call, attributes));
  }

  // A computation of its own has parameters of the operands' shapes.
  void ChangeParameters() {
    if (operand_shapes_.empty()) return;
    const Computation& computation = module_.computations[collective_.op_computation];
    for (size_t i = computation.first; i < computation.last; ++i) {
      bool is_parameter = false;
      int64_t number = 0;
      FieldReader reader(BodyOf(i));
      for (Field field; reader.Next(&field);) {
        if (field.number == InstructionField::kOpcode) is_parameter = field.bytes == "parameter";
        if (field.number == InstructionField::kParameterNumber) number = field.AsInt();
      }
      if (!is_parameter || number < 0 || number >= static_cast<int64_t>(operand_shapes_.size())) continue;
      InstructionChange change;
      change.shape = operand_shapes_[number];
      Replace(collective_.op_computation, i, ChangeInstruction(BodyOf(i), change));
    }
  }

  // Elements of a start's shape: its operands, a tuple if there are several or `always_tuple`, and its result.
  std::vector<std::pair<size_t, std::string>> NewElements(bool always_tuple) const {
    std::vector<std::pair<size_t, std::string>> elements;
    if (!operand_shapes_.empty()) {
      elements.emplace_back(0, always_tuple ? TupleShape(operand_shapes_) : OneOrTuple(operand_shapes_));
    }
    if (!result_shapes_.empty()) elements.emplace_back(1, OneOrTuple(result_shapes_));
    return elements;
  }

  const char* Does() const {
    switch (hierarchy_.division) {
      case Division::kAllReduce:
        return "reduces the chunks between NVLink domains";
      case Division::kAllGather:
        return "gathers parts between NVLink domains";
      case Division::kReduceScatter:
        return "reduces what came from each NVLink domain";
      case Division::kAllToAll:
        return "exchanges between NVLink domains";
      case Division::kPermute:
        return "moves the pairs between NVLink domains";
      case Division::kBroadcast:
        break;
    }
    return "moves the root's array to one device of each NVLink domain";
  }

  // The first devices of each group's domains, the root being the first of all, and groups of one of the others.
  DeviceGroups Roots() const {
    const DeviceGroups& local = hierarchy_.local;
    DeviceGroups roots, others;
    for (int64_t group = 0; group < local.size(); ++group) {
      const int64_t first = local.offsets[group];
      if (hierarchy_.positions[first] == 0 && group > 0) Close(&roots);
      roots.devices.push_back(local.devices[first]);
      for (int64_t i = first + 1; i < local.offsets[group + 1]; ++i) others.devices.push_back(local.devices[i]);
    }
    Close(&roots);
    for (const int64_t device : others.devices) {
      roots.devices.push_back(device);
      Close(&roots);
    }
    return roots;
  }
  static void Close(DeviceGroups* groups) { groups->offsets.push_back(static_cast<int64_t>(groups->devices.size())); }

  std::vector<std::pair<int64_t, int64_t>> Numbered(std::vector<std::pair<int64_t, int64_t>> pairs) {
    for (auto& [source, target] : pairs) {
      source = numbers_.OfDevice(source);
      target = numbers_.OfDevice(target);
    }
    return pairs;
  }

  CollectiveSpec LocalSpec(CollectiveOp op, const std::string& name, int64_t bytes) const {
    CollectiveSpec spec;
    spec.op = op;
    spec.name = name;
    spec.bytes = bytes;
    spec.element_types = collective_.spec.element_types;
    if (IsReducing(op)) spec.reduction = collective_.spec.reduction;
    spec.groups = op == CollectiveOp::kCollectivePermute ? DeviceGroups() : hierarchy_.local;
    spec.pairs = hierarchy_.local_pairs;
    return spec;
  }

  // call_arguments.h; `pieces` and `received_by` are those of bindings/ffi/gpu/collective_parts.cc. `number`: of the
  // call.
  std::string Arguments(const CollectiveSpec& spec, int64_t number) const {
    MlirDictionary dictionary = CallArguments(module_, collective_, topology_, spec, number);
    if (op_ == CollectiveOp::kCollectivePermute) {
      std::vector<int64_t> targets;
      targets.reserve(hierarchy_.across_pairs.size());
      for (const auto& [source, target] : hierarchy_.across_pairs) targets.push_back(target);
      dictionary.AddInts("received_by", PesOf(targets, topology_));
    } else if (op_ != CollectiveOp::kCollectiveBroadcast) {
      const bool by_domain = op_ != CollectiveOp::kAllReduce && OrderOf(hierarchy_) == GroupOrder::kByDomain;
      dictionary.AddInt("pieces", by_domain ? hierarchy_.num_domains : 1);
    }
    return dictionary.Text();
  }

  // The elements of a result that is a tuple if there are several; otherwise the result.
  std::vector<int64_t> TakeApart(int64_t result, const std::vector<std::string>& shapes, const std::string& what,
                                 std::vector<NewInstruction>* added) {
    if (!collective_.result.IsTuple()) return {result};
    std::vector<int64_t> elements;
    for (size_t i = 0; i < shapes.size(); ++i) {
      const NewName name = {collective_.spec.name + "." + what + "." + std::to_string(i), NewId()};
      added->push_back(TupleElement(name, shapes[i], result, static_cast<int64_t>(i)));
      elements.push_back(name.id);
    }
    return elements;
  }

  std::string OneOrTuple(const std::vector<std::string>& shapes) const {
    return collective_.result.IsTuple() ? TupleShape(shapes) : shapes[0];
  }

  static int64_t BytesOf(const std::vector<std::string>& shapes) {
    int64_t bytes = 0;
    for (const std::string& proto : shapes) {
      const Result<Shape> shape = ParseShape(proto);
      if (shape.ok()) bytes += ShapeBytes(*shape);
    }
    return bytes;
  }

  void Replace(size_t computation, size_t instruction, std::string body) {
    divided_.edits.push_back({computation, instruction, std::move(body), {}});
  }
  // Behind what was added.
  void ReplaceBehind(size_t instruction, std::string body) {
    divided_.edits.push_back({collective_.computation, instruction, std::move(body), std::move(before_)});
    before_.clear();
  }

  std::string_view BodyOf(size_t instruction) const { return module_.instructions[instruction].body; }
  int64_t NewId() { return numbers_.Id(module_.instructions[collective_.instruction].id); }
  int64_t local() const { return hierarchy_.local_size; }

  const Module& module_;
  const Topology& topology_;
  NewNumbers& numbers_;
  const Collective& collective_;
  const Hierarchy& hierarchy_;
  const CollectiveRecord& record_;
  const CollectiveOp op_;
  const std::vector<const Shape*> leaves_;
  std::vector<int64_t> operands_;  // of the part between domains
  std::vector<std::string> operand_shapes_, result_shapes_;
  std::vector<NewInstruction> before_;
  int64_t result_id_ = 0;
  DividedCollectiveOnGpu divided_;
};

}  // namespace

DividedCollectiveOnGpu DivideCollectiveOnGpu(const Module& module, const Topology& topology,
                                             const Collective& collective, const Hierarchy& hierarchy,
                                             const CollectiveRecord& record, NewNumbers* numbers) {
  return DivisionOnGpu(module, topology, collective, hierarchy, record, numbers).Run();
}

}  // namespace xla_shmem::hlo
