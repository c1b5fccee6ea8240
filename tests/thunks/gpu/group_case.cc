#include "tests/thunks/gpu/group_case.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <thread>

#include "tests/doubles/nvshmem_host_api.h"
#include "tests/thunks/gpu/gpu_job.h"
#include "xla_patch/thunks/gpu/transfers.h"

namespace xla_shmem::testing {
namespace {

// Random bytes that are finite numbers in every type.
std::vector<char> Values(ElementType type, size_t elements, unsigned seed) {
  if (type == ElementType::kC64) return Values(ElementType::kF32, 2 * elements, seed);
  if (type == ElementType::kC128) return Values(ElementType::kF64, 2 * elements, seed);
  std::mt19937 random(seed);
  std::vector<char> bytes(elements * ElementBytes(type));
  for (size_t i = 0; i < elements; ++i) {
    char* at = bytes.data() + i * ElementBytes(type);
    if (type == ElementType::kF32) {
      const float value = static_cast<float>(static_cast<int>(random() % 2001) - 1000) / 64;
      memcpy(at, &value, 4);
    } else if (type == ElementType::kF64) {
      const double value = (static_cast<double>(random()) - 2e9) / 3;
      memcpy(at, &value, 8);
    } else if (type == ElementType::kBf16 || type == ElementType::kF16) {
      const uint16_t bits = (random() & 0x83ff) | 0x3800;
      memcpy(at, &bits, 2);
    } else {
      for (size_t byte = 0; byte < ElementBytes(type); ++byte) at[byte] = static_cast<char>(random());
    }
  }
  return bytes;
}

using Arrays = std::vector<std::vector<char>>;

size_t OperandParts(const GroupCase& test, size_t members) {
  const bool whole = test.op == CollectiveOp::kAllToAll && !test.one_array_each;
  return whole || test.op == CollectiveOp::kReduceScatter ? members : 1;
}

size_t ResultParts(const GroupCase& test, size_t members) {
  const bool whole = test.op == CollectiveOp::kAllToAll && !test.one_array_each;
  return whole || test.op == CollectiveOp::kAllGather ? members : 1;
}

// Result `number` of member `me`, from the operands of all members.
std::vector<char> Expected(const GroupCase& test, const std::vector<Arrays>& operands, size_t me, size_t number) {
  const size_t members = operands.size();
  const size_t bytes = test.elements[number] * ElementBytes(test.types[number]);
  const auto part = [&](size_t member, size_t index) { return operands[member][number].data() + index * bytes; };
  std::vector<char> result;
  const auto append = [&](const char* from) { result.insert(result.end(), from, from + bytes); };
  switch (test.op) {
    case CollectiveOp::kAllGather:
      for (size_t member = 0; member < members; ++member) append(part(member, 0));
      return result;
    case CollectiveOp::kAllToAll:
      if (test.one_array_each) return operands[number][me];
      for (size_t member = 0; member < members; ++member) append(part(member, me));
      return result;
    case CollectiveOp::kCollectiveBroadcast:
      append(part(0, 0));
      return result;
    default: {
      const size_t index = test.op == CollectiveOp::kReduceScatter ? me : 0;
      std::vector<const char*> inputs;
      for (size_t member = 0; member < members; ++member) inputs.push_back(part(member, index));
      result.resize(bytes);
      Reduce(test.types[number], test.kind, inputs.data(), members, test.elements[number], result.data());
      return result;
    }
  }
}

constexpr int kRounds = 3;
constexpr int kLaunches = 20;  // of a graph

// What one PE does: its inputs are copied to its operands before every round.
struct Member {
  Arrays inputs, operands, results;
  std::vector<Arrays> seen;  // of each round

  Member(const GroupCase& test, size_t members, unsigned seed) : seen(kRounds) {
    for (size_t i = 0; i < test.types.size(); ++i) {
      const size_t elements = test.elements[i];
      const size_t bytes = elements * ElementBytes(test.types[i]);
      inputs.push_back(Values(test.types[i], elements * OperandParts(test, members), seed * 31 + i));
      operands.emplace_back(inputs[i].size(), 1);
      results.emplace_back(bytes * ResultParts(test, members), 2);
      for (Arrays& arrays : seen) arrays.emplace_back(results[i].size(), 3);
    }
  }

  gpu::GroupArguments Arguments(const GroupCase& test, const std::vector<int>& group) {
    gpu::GroupArguments arguments;
    arguments.name = "module/op";
    arguments.tag = kTag;
    arguments.op = test.op;
    arguments.reduction = test.kind;
    arguments.group = group;
    arguments.types = test.types;
    arguments.one_array_each = test.one_array_each;
    for (size_t i = 0; i < test.types.size(); ++i) {
      arguments.buffers.operands.push_back(operands[i].data());
      arguments.buffers.results.push_back((test.in_place ? operands : results)[i].data());
      arguments.buffers.bytes.push_back(test.elements[i] * ElementBytes(test.types[i]));
    }
    return arguments;
  }

  void Run(const GroupCase& test, const std::vector<int>& group, GpuJob::Pe& pe) {
    const gpu::ScopedContext context(*pe.device);
    gpu::GroupArguments arguments = Arguments(test, group);
    const bool graph = test.form == Form::kGraph;
    if (graph) pe.cuda->BeginCapture(pe.compute);
    for (int round = 0; round < (graph ? 1 : kRounds); ++round) {
      for (size_t i = 0; i < inputs.size(); ++i) {
        pe.device->Copy(operands[i].data(), inputs[i].data(), inputs[i].size(), pe.compute);
      }
      arguments.tag = kTag + round;
      if (test.form == Form::kOverlapping) {
        CHECK(pe.transfers->StartGroup({7, round}, arguments, pe.compute).message() == "");
        CHECK(pe.transfers->Finish({7, round}, arguments.name, pe.compute).message() == "");
      } else {
        CHECK(pe.transfers->RunGroup(arguments, pe.compute).message() == "");
      }
      for (size_t i = 0; i < inputs.size(); ++i) {
        pe.device->Copy(seen[round][i].data(), arguments.buffers.results[i], seen[round][i].size(), pe.compute);
      }
    }
    if (!graph) return;
    pe.cuda->EndCapture(pe.compute);
    for (int launch = 0; launch < kLaunches; ++launch) pe.cuda->LaunchGraph(pe.compute);
  }
};

// Whether the PE's collective is a kernel.
bool HasMessages(const GroupCase& test, int pe) {
  const auto has_bytes = [](size_t elements) { return elements > 0; };
  if (std::none_of(test.elements.begin(), test.elements.end(), has_bytes)) return false;
  return std::any_of(test.groups.begin(), test.groups.end(), [&](const std::vector<int>& group) {
    return group.size() > 1 && std::find(group.begin(), group.end(), pe) != group.end();
  });
}

}  // namespace

void RunGroupCase(const GroupCase& test) {
  GpuJobOptions options;
  options.n_pes = 0;
  for (const auto& group : test.groups) options.n_pes += static_cast<int>(group.size());
  options.puts = test.puts;
  options.lane_bytes = test.lane_bytes;
  options.arena_bytes = test.arena_bytes;
  options.most_lanes = test.most_lanes;
  options.multimem = test.multimem;
  options.driver_heap = test.driver_heap;
  GpuJob job(options);
  std::vector<std::vector<Member>> members(test.groups.size());
  std::vector<std::thread> hosts;
  for (size_t g = 0; g < test.groups.size(); ++g) {
    const std::vector<int>& group = test.groups[g];
    for (const int pe : group) members[g].emplace_back(test, group.size(), pe);
    for (size_t i = 0; i < group.size(); ++i) {
      hosts.emplace_back([&, g, i] {
        nvshmem_double::BindPe(test.groups[g][i]);
        members[g][i].Run(test, test.groups[g], job.pe(test.groups[g][i]));
      });
    }
  }
  for (std::thread& host : hosts) host.join();
  REQUIRE(job.Synchronize());
  for (int pe = 0; pe < options.n_pes; ++pe) {
    const gpu::Transfers::InGraphs in_graphs = job.pe(pe).transfers->in_graphs();
    CHECK(in_graphs.run == kLaunches * in_graphs.captured);
    CHECK((in_graphs.captured > 0) == (test.form == Form::kGraph && HasMessages(test, pe)));
  }
  for (std::vector<Member>& group : members) {
    std::vector<Arrays> inputs;
    for (const Member& member : group) inputs.push_back(member.inputs);
    for (size_t i = 0; i < group.size(); ++i) {
      for (size_t number = 0; number < test.types.size(); ++number) {
        const std::vector<char> expected = Expected(test, inputs, i, number);
        for (int round = 0; round < (test.form == Form::kGraph ? 1 : kRounds); ++round) {
          CHECK(group[i].seen[round][number] == expected);
        }
      }
    }
  }
}

}  // namespace xla_shmem::testing
