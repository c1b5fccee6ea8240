#include "xla_patch/hlo/rewrite/hierarchical_collective.h"

#include <algorithm>
#include <string>
#include <utility>

#include "xla_patch/hlo/rewrite/new_instructions.h"
#include "xla_patch/hlo/rewrite/part_call.h"

namespace xla_shmem::hlo {
namespace {

// Chunks of an all-reduce begin at cache lines.
constexpr int64_t kChunkAlignment = 64;

int64_t ChunkBytes(int64_t bytes, int64_t devices) {
  const int64_t chunk = bytes / devices + (bytes % devices != 0 ? 1 : 0);
  return (chunk + kChunkAlignment - 1) / kChunkAlignment * kChunkAlignment;
}

class CollectiveDivision {
 public:
  CollectiveDivision(const Module& module, const Topology& topology, const Collective& collective,
                     const Hierarchy& hierarchy, const CollectiveRecord& record,
                     const std::optional<WholeArrays>& whole, NewNumbers* numbers)
      : module_(module),
        topology_(topology),
        numbers_(*numbers),
        collective_(collective),
        hierarchy_(hierarchy),
        record_(record),
        body_(module_.instructions[collective.instruction].body),
        operands_(whole.has_value() ? whole->operands : collective.fields.operand_ids),
        place_(whole.has_value() ? whole->place : collective.instruction),
        type_(collective.spec.element_types[0]),
        domains_(hierarchy.num_domains),
        local_(hierarchy.local_size) {}

  DividedCollective Run() {
    divided_.edit = {collective_.computation, place_, "", {}};
    switch (hierarchy_.division) {
      case Division::kAllReduce:
        AllReduce();
        break;
      case Division::kAllGather:
        AllGather();
        break;
      case Division::kReduceScatter:
        ReduceScatter();
        break;
      case Division::kAllToAll:
        AllToAll();
        break;
      case Division::kPermute:
        Permute();
        break;
      case Division::kBroadcast:
        Broadcast();
        break;
    }
    return std::move(divided_);
  }

 private:
  void AllReduce() {
    const int64_t chunk = ChunkBytes(collective_.spec.bytes, local_);
    PartCall scatter = LocalCall(PartTarget::kReduceScatter, CollectiveOp::kReduceScatter, chunk, 1);
    for (int64_t i = 0; i < Devices(); ++i) scatter.positions.push_back(i % local_);
    const int64_t scattered = AddCall(scatter, operands_, {Elements(chunk)}, "reduces to chunks in each NVLink domain");
    PartCall gather = LocalCall(PartTarget::kAllGather, CollectiveOp::kAllGather, chunk, 1);
    gather.positions = scatter.positions;
    if (collective_.spec.unsupported_by_xla.has_value()) {
      Finish(gather, {ReduceHere(scattered, chunk)}, "gathers the chunks in each NVLink domain");
      return;
    }
    StockCollective all_reduce = Stock(CollectiveOp::kAllReduce, {scattered});
    all_reduce.shape = VectorShape(type_, Elements(chunk));
    all_reduce.callees = collective_.fields.callees;
    const int64_t reduced = AddStock(all_reduce, chunk, "reduces the chunks between NVLink domains");
    Finish(gather, {reduced}, "gathers the chunks in each NVLink domain");
  }

  // The chunk of all domains, reduced by a call of ours because XLA lacks the reduction.
  int64_t ReduceHere(int64_t scattered, int64_t chunk) {
    StockCollective all_gather = Stock(CollectiveOp::kAllGather, {scattered});
    all_gather.shape = VectorShape(type_, Elements(domains_ * chunk));
    all_gather.dimensions = {0};
    const int64_t gathered = AddStock(all_gather, domains_ * chunk, "gathers the chunk between NVLink domains");
    const PartCall reduce = OwnCall(PartTarget::kReduce, CollectiveOp::kReduceScatter, chunk);
    return AddCall(reduce, {gathered}, {Elements(chunk)}, "reduces what came from each NVLink domain");
  }

  void AllGather() {
    const int64_t part = collective_.spec.bytes / (domains_ * local_);
    const NewName flat = Name("bitcast");
    Add(Bitcast(flat, VectorShape(type_, Elements(part)), operands_[0]));
    StockCollective all_gather = Stock(CollectiveOp::kAllGather, {flat.id});
    all_gather.shape = VectorShape(type_, Elements(domains_ * part));
    all_gather.dimensions = {0};
    const int64_t gathered = AddStock(all_gather, domains_ * part, "gathers parts between NVLink domains");
    PartCall gather = LocalCall(PartTarget::kAllGather, CollectiveOp::kAllGather, part, domains_);
    gather.positions = PositionsOfIndices();
    Finish(gather, {gathered}, "gathers all parts in each NVLink domain");
  }

  void ReduceScatter() {
    const int64_t part = collective_.spec.bytes;
    PartCall scatter = LocalCall(PartTarget::kReduceScatter, CollectiveOp::kReduceScatter, part, domains_);
    scatter.positions = PositionsOfIndices();
    const int64_t scattered =
        AddCall(scatter, operands_, std::vector<int64_t>(domains_, Elements(part)), "reduces in each NVLink domain");
    const std::vector<int64_t> exchanged = ExchangeBetweenDomains(scattered, part);
    PartCall reduce = OwnCall(PartTarget::kReduce, CollectiveOp::kReduceScatter, part);
    Finish(reduce, exchanged, "reduces what came from each NVLink domain");
  }

  void AllToAll() {
    const int64_t part = collective_.spec.bytes / (domains_ * local_);
    PartCall exchange = LocalCall(PartTarget::kAllToAll, CollectiveOp::kAllToAll, part, domains_);
    exchange.positions = PositionsOfIndices();
    const int64_t local = AddCall(exchange, operands_, std::vector<int64_t>(domains_, Elements(local_ * part)),
                                  "exchanges in each NVLink domain");
    const std::vector<int64_t> exchanged = ExchangeBetweenDomains(local, local_ * part);
    PartCall order = OwnCall(PartTarget::kAllGather, CollectiveOp::kAllGather, part);
    // Every device of a group gets the parts of the same devices, in the order of domains.
    for (int64_t i = 0; i < Devices(); ++i) {
      const int64_t members = domains_ * local_, group = i / members;
      const auto first = hierarchy_.positions.begin() + group * members;
      order.positions.insert(order.positions.end(), first, first + members);
    }
    Finish(order, exchanged, "puts what came in order");
  }

  void Permute() {
    StockCollective permute = Stock(CollectiveOp::kCollectivePermute, operands_);
    permute.groups = IdGroups();
    permute.pairs = Numbered(hierarchy_.across_pairs);
    permute.shape = std::string(collective_.result.proto);
    const int64_t received =
        AddStock(permute, collective_.spec.bytes, "moves the pairs between NVLink domains", &hierarchy_.across_pairs);
    PartCall call;
    call.target = PartTarget::kPermute;
    call.op = CollectiveOp::kCollectivePermute;
    call.pairs = hierarchy_.local_pairs;
    for (const auto& [source, target] : hierarchy_.across_pairs) call.received_by.push_back(target);
    std::vector<int64_t> operands = operands_;
    operands.push_back(received);
    Finish(call, operands, "moves the pairs in each NVLink domain");
  }

  // The root is the first device of the first domain of its group.
  void Broadcast() {
    std::vector<int64_t> operands = operands_;
    PartCall call;
    call.target = PartTarget::kBroadcast;
    call.op = CollectiveOp::kCollectiveBroadcast;
    call.groups = hierarchy_.local;
    call.sources.assign(hierarchy_.local.size(), 0);
    for (int64_t number = 1; number < domains_; ++number) {
      StockCollective permute = Stock(CollectiveOp::kCollectivePermute, operands_);
      permute.groups = IdGroups();
      permute.shape = std::string(collective_.result.proto);
      std::vector<std::pair<int64_t, int64_t>> pairs;
      ForEachDomain([&](int64_t domain, int64_t root, int64_t local_group) {
        if (domain != number) return;
        pairs.emplace_back(root, hierarchy_.local.devices[hierarchy_.local.offsets[local_group]]);
        call.sources[local_group] = number;
      });
      permute.pairs = Numbered(pairs);
      operands.push_back(AddStock(permute, collective_.spec.bytes,
                                  "moves the root's array to NVLink domain " + std::to_string(number) + " of its group",
                                  &pairs));
    }
    Finish(call, operands, "broadcasts in each NVLink domain");
  }

  // Calls visit(number of the domain in its group, root of the group, number of the local group).
  template <typename Visit>
  void ForEachDomain(Visit visit) const {
    const DeviceGroups& local = hierarchy_.local;
    int64_t domain = -1, root = -1;
    for (int64_t group = 0; group < local.size(); ++group) {
      const int64_t first = local.offsets[group];
      const bool begins_a_group = hierarchy_.positions[first] == 0;
      domain = begins_a_group ? 0 : domain + 1;
      if (begins_a_group) root = local.devices[first];
      visit(domain, root, group);
    }
  }

  // All-to-all of a tuple between domains, an array for each; returns its elements.
  std::vector<int64_t> ExchangeBetweenDomains(int64_t tuple, int64_t bytes) {
    const std::string shape = VectorShape(type_, Elements(bytes));
    StockCollective exchange = Stock(CollectiveOp::kAllToAll, TakeApart(tuple, shape));
    exchange.shape = TupleShape(std::vector<std::string>(domains_, shape));
    return TakeApart(AddStock(exchange, domains_ * bytes, "exchanges between NVLink domains"), shape);
  }

  std::vector<int64_t> TakeApart(int64_t tuple, const std::string& shape) {
    std::vector<int64_t> elements;
    for (int64_t i = 0; i < domains_; ++i) {
      const NewName name = Name("element");
      Add(TupleElement(name, shape, tuple, i));
      elements.push_back(name.id);
    }
    return elements;
  }

  int64_t Devices() const { return static_cast<int64_t>(hierarchy_.local.devices.size()); }
  int64_t Elements(int64_t bytes) const { return bytes / static_cast<int64_t>(ElementBytes(type_)); }

  // For each device of `local`: the places in the group of the devices with its index, domain by domain.
  std::vector<int64_t> PositionsOfIndices() const {
    std::vector<int64_t> positions;
    for (int64_t i = 0; i < Devices(); ++i) {
      const int64_t members = domains_ * local_, group = i / members, index = i % local_;
      for (int64_t domain = 0; domain < domains_; ++domain) {
        positions.push_back(hierarchy_.positions[group * members + domain * local_ + index]);
      }
    }
    return positions;
  }

  PartCall LocalCall(PartTarget target, CollectiveOp op, int64_t part_bytes, int64_t parts) const {
    PartCall call;
    call.target = target;
    call.op = op;
    call.groups = hierarchy_.local;
    call.part_bytes = part_bytes;
    call.parts = parts;
    return call;
  }

  // Each device for itself.
  PartCall OwnCall(PartTarget target, CollectiveOp op, int64_t part_bytes) const {
    PartCall call = LocalCall(target, op, part_bytes, domains_ * local_);
    call.groups = DeviceGroups();
    for (const int64_t device : hierarchy_.local.devices) {
      call.groups.devices.push_back(device);
      call.groups.offsets.push_back(static_cast<int64_t>(call.groups.devices.size()));
    }
    return call;
  }

  std::vector<std::pair<int64_t, int64_t>> Numbered(std::vector<std::pair<int64_t, int64_t>> pairs) {
    for (auto& [source, target] : pairs) {
      source = numbers_.OfDevice(source);
      target = numbers_.OfDevice(target);
    }
    return pairs;
  }

  StockCollective Stock(CollectiveOp op, std::vector<int64_t> operands) {
    StockCollective stock;
    stock.opcode = OpName(op);
    stock.operands = std::move(operands);
    for (const int64_t device : hierarchy_.across.devices) stock.groups.ids.push_back(numbers_.OfDevice(device));
    stock.groups.offsets = hierarchy_.across.offsets;
    if (collective_.fields.has_channel_id || numbers_.has_partitions()) {
      stock.channel = numbers_.Channel();
      stock.use_global_device_ids = CanBeGlobal(op);
    }
    return stock;
  }

  NewName Name(const std::string& what) {
    std::string name = collective_.spec.name + "." + what;
    const auto same = std::count(names_.begin(), names_.end(), name);
    names_.push_back(name);
    if (same > 0) name += "." + std::to_string(same);
    return {std::move(name), numbers_.Id(module_.instructions[collective_.instruction].id)};
  }

  void Add(NewInstruction instruction) { divided_.edit.before.push_back(std::move(instruction)); }

  Attributes Record(const CollectiveSpec& spec, Backend backend, const std::string& does) {
    return RecordPart(spec, backend, does, record_, &divided_.parts);
  }

  CollectiveSpec SpecOf(CollectiveOp op, const std::string& name, int64_t bytes) const {
    CollectiveSpec spec;
    spec.op = op;
    spec.name = name;
    spec.bytes = bytes;
    spec.element_types = {type_};
    spec.reduction = collective_.spec.reduction;
    return spec;
  }

  // Adds a call whose result is a vector of each of `elements`, a tuple if they are several. Returns its id.
  int64_t AddCall(const PartCall& part, const std::vector<int64_t>& operands, const std::vector<int64_t>& elements,
                  const std::string& does) {
    const NewName name = Name(OpName(part.op));
    std::vector<std::string> shapes;
    int64_t bytes = 0;
    for (const int64_t count : elements) {
      shapes.push_back(VectorShape(type_, count));
      bytes += count * static_cast<int64_t>(ElementBytes(type_));
    }
    const std::string shape = shapes.size() == 1 ? shapes[0] : TupleShape(shapes);
    CollectiveSpec spec = SpecOf(part.op, name.name, bytes);
    spec.groups = part.groups;
    CustomCall call = AsCall(part, name.name);
    call.shape = shape;
    call.id = name.id;
    call.name = name.name;
    call.operands = operands;
    Add({AsCustomCall(body_, call, Record(spec, Backend::kNvshmem, does)), name.id});
    return name.id;
  }

  // `pairs`: devices of a permute.
  int64_t AddStock(const StockCollective& stock, int64_t bytes, const std::string& does,
                   const std::vector<std::pair<int64_t, int64_t>>* pairs = nullptr) {
    const CollectiveOp op = OpNamed(stock.opcode).value_or(collective_.spec.op);
    const NewName name = Name(stock.opcode);
    CollectiveSpec spec = SpecOf(op, name.name, bytes);
    if (pairs == nullptr) {
      spec.groups = hierarchy_.across;
    } else {
      spec.pairs = *pairs;
    }
    Add(AsStockCollective(name, stock, body_, Record(spec, Backend::kDefault, does)));
    return name.id;
  }

  // The last part, in the place of the collective.
  void Finish(const PartCall& part, const std::vector<int64_t>& operands, const std::string& does) {
    CollectiveSpec spec = SpecOf(part.op, collective_.spec.name, collective_.spec.bytes);
    spec.groups = part.groups;
    spec.pairs = part.pairs;
    CustomCall call = AsCall(part, collective_.spec.name);
    call.operands = operands;
    if (place_ != collective_.instruction) {
      call.id = module_.instructions[place_].id;
      call.shape = module_.instructions[place_].shape;
    }
    divided_.edit.body = AsCustomCall(body_, call, Record(spec, Backend::kNvshmem, does));
  }

  CustomCall AsCall(const PartCall& part, const std::string& name) {
    return WritePartCall(module_, collective_, topology_, part, name, static_cast<int64_t>(divided_.parts.size()));
  }

  const Module& module_;
  const Topology& topology_;
  NewNumbers& numbers_;
  const Collective& collective_;
  const Hierarchy& hierarchy_;
  const CollectiveRecord& record_;
  const std::string_view body_;
  const std::vector<int64_t> operands_;
  const size_t place_;
  const ElementType type_;
  const int64_t domains_;
  const int64_t local_;
  std::vector<std::string> names_;
  DividedCollective divided_;
};

}  // namespace

DividedCollective DivideCollective(const Module& module, const Topology& topology, const Collective& collective,
                                   const Hierarchy& hierarchy, const CollectiveRecord& record,
                                   const std::optional<WholeArrays>& whole, NewNumbers* numbers) {
  return CollectiveDivision(module, topology, collective, hierarchy, record, whole, numbers).Run();
}

}  // namespace xla_shmem::hlo
