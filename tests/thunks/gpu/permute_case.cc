#include "tests/thunks/gpu/permute_case.h"

#include <doctest/doctest.h>

#include <numeric>
#include <thread>
#include <utility>

#include "tests/thunks/gpu/gpu_job.h"
#include "tests/thunks/gpu/group_case.h"
#include "xla_patch/thunks/gpu/transfers.h"

namespace xla_shmem::testing {
namespace {

using gpu::Puts;
using gpu::Signals;

constexpr char kName[] = "module/op";

std::vector<int> SourcesOf(const std::vector<int>& target_of) {
  std::vector<int> source_of(target_of.size(), -1);
  for (size_t pe = 0; pe < target_of.size(); ++pe) {
    if (target_of[pe] >= 0) source_of[target_of[pe]] = static_cast<int>(pe);
  }
  return source_of;
}

// Every round writes new operands on the compute stream, behind which the transfer has to wait, and overwrites them as
// soon as it is joined.
void RunPermutes(GpuJob& job, const PermuteCase& test) {
  const std::vector<int> source_of = SourcesOf(test.target_of);
  const size_t parts = test.elements.size();
  std::vector<std::vector<std::vector<int32_t>>> seen(job.n_pes());  // results, by PE and round
  std::vector<Status> statuses(job.n_pes());
  std::vector<std::thread> hosts;
  // Everything that streams touch lives until they are idle.
  std::vector<std::vector<std::vector<int32_t>>> inputs(job.n_pes()), operands(job.n_pes()), results(job.n_pes());
  for (int pe = 0; pe < job.n_pes(); ++pe) {
    for (int round = 0; round < test.rounds; ++round) {
      for (size_t part = 0; part < parts; ++part) {
        inputs[pe].push_back(Pattern(test.elements[part], pe, round * 7 + static_cast<int>(part)));
        seen[pe].emplace_back(test.elements[part], -1);
      }
    }
    for (const size_t elements : test.elements) {
      operands[pe].emplace_back(elements, -2);
      results[pe].emplace_back(elements, -3);
    }
  }
  for (int pe = 0; pe < job.n_pes(); ++pe) {
    hosts.emplace_back([&, pe] {
      GpuJob::Pe& mine = job.pe(pe);
      const gpu::ScopedContext context(*mine.device);
      gpu::PermuteArguments permute{kName, kTag, source_of[pe], test.target_of[pe], {}};
      for (size_t part = 0; part < parts; ++part) {
        auto& result = test.in_place ? operands[pe][part] : results[pe][part];
        permute.buffers.operands.push_back(reinterpret_cast<char*>(operands[pe][part].data()));
        permute.buffers.results.push_back(reinterpret_cast<char*>(result.data()));
        permute.buffers.bytes.push_back(test.elements[part] * 4);
      }
      for (int round = 0; round < test.rounds && statuses[pe].ok(); ++round) {
        const bool captured = test.launches > 0 && round + 1 == test.rounds;
        if (captured) mine.cuda->BeginCapture(mine.compute);
        for (size_t part = 0; part < parts; ++part) {
          mine.device->Copy(operands[pe][part].data(), inputs[pe][round * parts + part].data(),
                            permute.buffers.bytes[part], mine.compute);
        }
        permute.tag = kTag + round;
        permute.keeps_results = test.keeps_results;
        if (test.whole) {
          statuses[pe] = mine.transfers->RunPermute(permute, mine.compute);
        } else {
          statuses[pe] = mine.transfers->StartPermute({1, round}, permute, mine.compute);
          if (statuses[pe].ok()) statuses[pe] = mine.transfers->Finish({1, round}, kName, mine.compute);
        }
        for (size_t part = 0; part < parts; ++part) {
          mine.device->Copy(seen[pe][round * parts + part].data(), permute.buffers.results[part],
                            permute.buffers.bytes[part], mine.compute);
        }
        if (captured) mine.cuda->EndCapture(mine.compute);
        for (int launch = 0; captured && launch < test.launches; ++launch) mine.cuda->LaunchGraph(mine.compute);
      }
    });
  }
  for (std::thread& host : hosts) host.join();
  REQUIRE(job.Synchronize());
  const int32_t without_source = test.keeps_results ? -3 : 0;
  for (int pe = 0; pe < job.n_pes(); ++pe) {
    CHECK(statuses[pe].message() == "");
    CHECK(job.pe(pe).failures.empty());
    for (size_t i = 0; i < seen[pe].size(); ++i) {
      const auto expected =
          source_of[pe] < 0 ? std::vector<int32_t>(seen[pe][i].size(), without_source) : inputs[source_of[pe]][i];
      CHECK(seen[pe][i] == expected);
    }
  }
}

}  // namespace

void RunPermutesBothWays(const PermuteCase& test) {
  GpuJobOptions options;
  options.n_pes = static_cast<int>(test.target_of.size());
  options.batches = test.batches;
  options.driver_heap = test.driver_heap;
  for (const auto& [puts, signals] : {std::pair(Puts::kDriver, Signals::kWrites),
                                      {Puts::kDriver, Signals::kCopies},
                                      {Puts::kNvshmem, Signals::kWrites}}) {
    if (test.driver_heap && puts == Puts::kNvshmem) continue;
    options.puts = puts;
    options.signals = signals;
    GpuJob job(options);
    RunPermutes(job, test);
  }
}

void RunPermutesByKernel(const PermuteCase& test) {
  GpuJobOptions options;
  options.n_pes = static_cast<int>(test.target_of.size());
  options.permute = GpuPermute::kKernel;
  options.driver_heap = test.driver_heap;
  constexpr int kLaunches = 10;
  constexpr size_t kSplitBytes = 4 << 20;
  const std::pair<Form, size_t> forms[] = {
      {Form::kOverlapping, 0}, {Form::kOverlapping, kSplitBytes}, {Form::kInLine, 0}, {Form::kGraph, 0}};
  for (const auto& form_and_bytes : forms) {
    const Form way = form_and_bytes.first;
    const size_t split_bytes = form_and_bytes.second;
    CAPTURE(static_cast<int>(way));
    CAPTURE(split_bytes);
    options.split_bytes = split_bytes;
    GpuJob job(options);
    PermuteCase form = test;
    form.whole = way != Form::kOverlapping;
    form.launches = way == Form::kGraph ? kLaunches : 0;
    RunPermutes(job, form);
    for (int pe = 0; pe < job.n_pes(); ++pe) {
      const gpu::Transfers::InGraphs in_graphs = job.pe(pe).transfers->in_graphs();
      CHECK(in_graphs.captured == (way == Form::kGraph ? 1 : 0));
      CHECK(in_graphs.run == static_cast<uint64_t>(form.launches));
    }
  }
}

std::vector<int32_t> Pattern(size_t elements, int pe, int round) {
  std::vector<int32_t> values(elements);
  std::iota(values.begin(), values.end(), pe * 100003 + round * 1009);
  return values;
}

}  // namespace xla_shmem::testing
