#include "tests/overlay/random_module.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <unordered_map>
#include <utility>

namespace xla_shmem::test {
namespace {

class Generator {
 public:
  explicit Generator(uint64_t seed) : random_(seed) {}

  RandomModule Make() {
    MakeJob();
    const int64_t num_ops = 1 + Below(4);
    for (int64_t i = 0; i < num_ops; ++i) {
      AddOp("op" + std::to_string(i), static_cast<int>(i) + 1);
    }
    out_.text = "HloModule m\n" + computations_ + "ENTRY main {\n" + entry_ + "  ROOT result = (" +
                Join(result_types_) + ") tuple(" + Join(results_) + ")\n}\n";
    return std::move(out_);
  }

 private:
  // mt19937_64 is the same everywhere; the standard's distributions are not.
  int64_t Below(int64_t bound) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(bound)); }
  bool OneIn(int64_t n) { return Below(n) == 0; }
  template <typename T>
  const T& Pick(const std::vector<T>& choices) {
    return choices[Below(static_cast<int64_t>(choices.size()))];
  }

  static std::string Join(const std::vector<std::string>& parts) {
    std::string joined;
    for (const std::string& part : parts) {
      joined += (joined.empty() ? "" : ", ") + part;
    }
    return joined;
  }

  std::vector<int64_t> Shuffled(int64_t count) {
    std::vector<int64_t> ids(count);
    std::iota(ids.begin(), ids.end(), 0);
    for (int64_t i = count; i-- > 1;) {
      std::swap(ids[i], ids[Below(i + 1)]);
    }
    return ids;
  }

  // Devices, processes, domains, assignment, rules and transport.
  void MakeJob() {
    num_devices_ = Pick<int64_t>({1, 2, 4, 6, 8, 16});
    std::vector<int64_t> divisors;
    for (int64_t d = 1; d <= num_devices_; ++d) {
      if (num_devices_ % d == 0) {
        divisors.push_back(d);
      }
    }
    out_.replicas = OneIn(2) ? 1 : Pick(divisors);
    out_.partitions = num_devices_ / out_.replicas;
    const int64_t per_process = Pick(divisors);
    const int64_t per_domain = OneIn(3) ? num_devices_ : Pick(divisors);
    std::vector<DeviceLocation> locations;
    std::unordered_map<int64_t, int32_t> reach;
    const std::vector<int64_t> pes = Shuffled(num_devices_);
    const int64_t known = OneIn(12) ? std::max<int64_t>(1, num_devices_ - 1) : num_devices_;
    const int64_t per_reach = OneIn(3) ? Pick(divisors) : num_devices_;
    for (int64_t id = 0; id < known; ++id) {
      const auto group = [&](int64_t size) { return static_cast<int32_t>(id / size); };
      locations.push_back(
          {id, group(per_process), group(per_process), group(per_domain), static_cast<int32_t>(pes[id])});
      reach[id] = group(per_reach);
    }
    out_.topology = *Topology::Create(std::move(locations));
    out_.transport = PatchedXlaTransport(std::move(reach));
    out_.transport.max_group = OneIn(6) ? 3 : 128;
    if (OneIn(10)) {
      out_.transport = Transport();
      out_.transport.unavailable_reason = "no library";
    }
    out_.rules.profile = OneIn(3) ? Profile::kDomain : Profile::kUpstream;
    out_.rules.gpu = Pick<GpuGeneration>(
        {GpuGeneration::kUnknown, GpuGeneration::kUnknown, GpuGeneration::kHopper, GpuGeneration::kBlackwell});
    out_.rules.threshold = Pick<int64_t>({0, 1, 256, 4096, int64_t{1} << 20, kDefaultThresholdBytes});
    if (!OneIn(4)) {
      const std::vector<int64_t> order = OneIn(2) ? Shuffled(num_devices_) : Ordered(num_devices_);
      out_.by_partition.resize(out_.partitions);
      for (int64_t i = 0; i < num_devices_; ++i) {
        out_.by_partition[i / out_.replicas].push_back(order[i]);
      }
    }
    out_.lists_as_mesh = OneIn(3);
  }

  static std::vector<int64_t> Ordered(int64_t count) {
    std::vector<int64_t> ids(count);
    std::iota(ids.begin(), ids.end(), 0);
    return ids;
  }

  // Elements: few, many, or around the threshold.
  int64_t Elements(int64_t bytes_each) {
    switch (Below(4)) {
      case 0:
        return 1 + Below(64);
      case 1:
        return (int64_t{1} << Below(26)) + Below(3);
      default:
        return std::max<int64_t>(1, out_.rules.threshold / std::max<int64_t>(bytes_each, 1) + Below(3) - 1);
    }
  }

  struct Type {
    const char* name;
    int64_t bytes;
  };
  Type ElementType() {
    return Pick<Type>({{"f32", 4},
                       {"f32", 4},
                       {"bf16", 2},
                       {"f16", 2},
                       {"f64", 8},
                       {"s8", 1},
                       {"u8", 1},
                       {"s16", 2},
                       {"u32", 4},
                       {"s64", 8},
                       {"pred", 1},
                       {"s4", 1},
                       {"u64", 8},
                       {"c64", 8},
                       {"f8e5m2", 1},
                       {"f8e4m3fn", 1},
                       {"f8e8m0fnu", 1},  // which no kernel reduces
                       {"s32", 4},
                       {"c128", 16}});
  }

  // A computation over `type`; plain, detouring through f32, or something else.
  std::string Reduction(const std::string& type) {
    const std::string name = "reduce" + std::to_string(++num_computations_);
    const bool is_logical = type == "pred";
    const std::string op = is_logical ? Pick<std::string>({"and", "or"})
                           : type == "c64" || type == "c128"
                               ? Pick<std::string>({"add", "multiply"})
                               : Pick<std::string>({"add", "add", "multiply", "minimum", "maximum", "subtract"});
    const auto on = [&](const std::string& t, const std::string& a, const std::string& b) {
      return t + "[] " + op + "(" + a + ", " + b + ")";
    };
    std::string body;
    if ((type == "bf16" || type == "f16" || type == "s16") && OneIn(2)) {
      body = "x = f32[] convert(a)  y = f32[] convert(b)  s = " + on("f32", "x", "y") + "  ROOT r = " + type +
             "[] convert(s)";
    } else if (OneIn(8)) {
      body = "ROOT r = " + on(type, "a", "a");
    } else {
      body = "ROOT r = " + (OneIn(2) ? on(type, "a", "b") : on(type, "b", "a"));
    }
    computations_ += name + " { a = " + type + "[] parameter(0)  b = " + type + "[] parameter(1)  " + body + " }\n";
    return name;
  }

  // Groups over ids 0 to count-1, as a list, an iota, or all of them without a word.
  std::string Groups(int64_t count, bool may_be_empty) {
    if (may_be_empty && OneIn(4)) {
      return "{}";
    }
    std::vector<int64_t> sizes;
    for (int64_t d = 1; d <= count; ++d) {
      if (count % d == 0) {
        sizes.push_back(d);
      }
    }
    const int64_t size = Pick(sizes);
    if (OneIn(2)) {
      const std::string shape = "[" + std::to_string(count / size) + "," + std::to_string(size) + "]<=[";
      return OneIn(2) ? shape + std::to_string(count) + "]"
                      : shape + std::to_string(size) + "," + std::to_string(count / size) + "]T(1,0)";
    }
    const std::vector<int64_t> ids = OneIn(2) ? Shuffled(count) : Ordered(count);
    std::string groups;
    for (int64_t i = 0; i < count; ++i) {
      groups += (i % size == 0 ? (i == 0 ? "{" : "},{") : ",") + std::to_string(ids[i]);
    }
    groups += "}";
    if (OneIn(16)) {
      groups += ",{" + std::to_string(count) + "}";  // one the module does not have
    }
    return "{" + groups + "}";
  }

  std::string Pairs(int64_t count) {
    const std::vector<int64_t> targets = Shuffled(count);
    const int64_t kept = 1 + Below(count);
    std::string pairs;
    for (int64_t i = 0; i < kept; ++i) {
      pairs += (i == 0 ? "{" : ",{") + std::to_string(i) + "," + std::to_string(targets[i]) + "}";
    }
    if (OneIn(16)) {
      pairs += ",{0," + std::to_string(count + 1) + "}";
    }
    return "{" + pairs + "}";
  }

  std::string AllReduceParticipants(int channel) {
    const std::string with_channel = ", channel_id=" + std::to_string(channel);
    switch (Below(3)) {
      case 0:
        return ", replica_groups=" + Groups(out_.replicas, true);
      case 1:
        return ", replica_groups=" + Groups(out_.replicas, true) + with_channel;
      default:
        return ", replica_groups=" + Groups(num_devices_, false) + with_channel + ", use_global_device_ids=true";
    }
  }

  void AddResult(const std::string& name, const std::string& type) {
    results_.push_back(name);
    result_types_.push_back(type);
  }

  std::string Parameter(const std::string& type) {
    const std::string name = "p" + std::to_string(num_parameters_);
    entry_ += "  " + name + " = " + type + " parameter(" + std::to_string(num_parameters_++) + ")\n";
    return name;
  }

  std::string Layout() { return OneIn(12) ? "{0:S(5)}" : OneIn(12) ? "{0:T(128)}" : ""; }

  void AddOp(const std::string& name, int channel) {
    switch (Below(8)) {
      case 0:
      case 1:
      case 2:
        AddAllReduce(name, channel);
        break;
      case 3:
      case 4:
      case 5:
        AddPermute(name, channel);
        break;
      case 6:
        AddInLoop(name, channel);
        break;
      default:
        AddUnconsidered(name, channel);
        break;
    }
  }

  void AddAllReduce(const std::string& name, int channel) {
    const Type type = ElementType();
    const int64_t num_operands = OneIn(3) ? 2 + Below(3) : 1;
    std::vector<std::string> operands;
    std::vector<std::string> types;
    for (int64_t i = 0; i < num_operands; ++i) {
      types.push_back(std::string(type.name) + "[" + std::to_string(Elements(type.bytes * num_operands)) + "]");
      operands.push_back(Parameter(types.back()));
    }
    const std::string result = num_operands == 1 ? types[0] : "(" + Join(types) + ")";
    const std::string attributes = ", to_apply=" + Reduction(type.name) + AllReduceParticipants(channel);
    AddForms(name, "all-reduce", result, result, operands, types, attributes);
  }

  void AddPermute(const std::string& name, int channel) {
    const Type type = ElementType();
    const std::string shape = std::string(type.name) + "[" + std::to_string(Elements(type.bytes)) + "]" + Layout();
    const bool has_channel = !OneIn(3);
    const std::string attributes = ", source_target_pairs=" + Pairs(has_channel ? out_.partitions : out_.replicas) +
                                   (has_channel ? ", channel_id=" + std::to_string(channel) : "");
    AddForms(name, "collective-permute", shape, "(" + shape + ", " + shape + ")", {Parameter(shape)}, {shape},
             attributes);
  }

  // Synchronous, as a native pair, or wrapped in a generic one.
  void AddForms(const std::string& name, const std::string& op, const std::string& result,
                const std::string& start_shape, const std::vector<std::string>& operands,
                const std::vector<std::string>& types, const std::string& attributes) {
    const std::string arguments = "(" + Join(operands) + ")";
    switch (Below(3)) {
      case 0:
        entry_ += "  " + name + " = " + result + " " + op + arguments + attributes + "\n";
        break;
      case 1:
        entry_ += "  " + name + "s = " + start_shape + " " + op + "-start" + arguments + attributes + "\n";
        entry_ += "  " + name + " = " + result + " " + op + "-done(" + name + "s)\n";
        break;
      default: {
        std::vector<std::string> inner;
        std::string parameters;
        for (size_t i = 0; i < types.size(); ++i) {
          inner.push_back("x" + std::to_string(i));
          parameters += inner.back() + " = " + types[i] + " parameter(" + std::to_string(i) + ")  ";
        }
        computations_ += "wrapped_" + name + " { " + parameters + "ROOT " + name + "w = " + result + " " + op + "(" +
                         Join(inner) + ")" + attributes + " }\n";
        entry_ += "  " + name + "s = ((" + Join(types) + "), " + result + ") async-start" + arguments +
                  ", calls=wrapped_" + name + "\n";
        entry_ += "  " + name + " = " + result + " async-done(" + name + "s)\n";
        break;
      }
    }
    AddResult(name, result);
  }

  void AddInLoop(const std::string& name, int channel) {
    const std::string shape = "f32[" + std::to_string(Elements(4)) + "]";
    const std::string state = "(s32[], " + shape + ")";
    const std::string op = OneIn(2) ? "collective-permute(v), channel_id=" + std::to_string(channel) +
                                          ", source_target_pairs=" + Pairs(out_.partitions)
                                    : "all-reduce(v), to_apply=" + Reduction("f32") + AllReduceParticipants(channel);
    computations_ += "body_" + name + " { x = " + state +
                     " parameter(0)  i = s32[] get-tuple-element(x), index=0  v = " + shape +
                     " get-tuple-element(x), index=1  " + name + "c = " + shape + " " + op + "  ROOT t = " + state +
                     " tuple(i, " + name + "c) }\n";
    computations_ += "cond_" + name + " { x = " + state +
                     " parameter(0)  i = s32[] get-tuple-element(x), index=0  n = s32[] constant(3)  ROOT lt = pred[] "
                     "compare(i, n), direction=LT }\n";
    const std::string value = Parameter(shape);
    entry_ += "  " + name + "i = s32[] constant(0)\n";
    entry_ += "  " + name + "t = " + state + " tuple(" + name + "i, " + value + ")\n";
    entry_ +=
        "  " + name + " = " + state + " while(" + name + "t), condition=cond_" + name + ", body=body_" + name + "\n";
    AddResult(name, state);
  }

  void AddUnconsidered(const std::string& name, int channel) {
    const std::string n = std::to_string(8 * num_devices_);
    const std::string global = ", channel_id=" + std::to_string(channel) +
                               ", use_global_device_ids=true, replica_groups=" + "[1," + std::to_string(num_devices_) +
                               "]<=[" + std::to_string(num_devices_) + "]";
    const std::string many = "f32[" + n + "]";
    const int64_t kind = Below(3);
    const std::string operand = Parameter(kind == 0 ? "f32[8]" : many);
    const std::string result = kind == 1 ? "f32[8]" : many;
    std::string op;
    if (kind == 0) {
      op = "all-gather(" + operand + "), dimensions={0}" + global;
    } else if (kind == 1) {
      op = "reduce-scatter(" + operand + "), dimensions={0}, to_apply=" + Reduction("f32") + global;
    } else {
      op = "all-to-all(" + operand + "), dimensions={0}, replica_groups=" + Groups(out_.replicas, false);
    }
    entry_ += "  " + name + " = " + result + " " + op + "\n";
    AddResult(name, result);
  }

  std::mt19937_64 random_;
  RandomModule out_;
  int64_t num_devices_ = 1;
  int64_t num_parameters_ = 0;
  int num_computations_ = 0;
  std::string computations_;
  std::string entry_;
  std::vector<std::string> results_;
  std::vector<std::string> result_types_;
};

}  // namespace

RandomModule MakeRandomModule(uint64_t seed) { return Generator(seed).Make(); }

}  // namespace xla_shmem::test
