// Stands in for libFuzzer: mutates the sample modules with a fixed seed and feeds them to LLVMFuzzerTestOneInput. With
// a directory as first argument it writes the seeds there instead, as a corpus for libFuzzer.
//
//   fuzz_pass_standalone [iterations]          default 20000
//   fuzz_pass_standalone --write-corpus DIR
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "tests/hlo/cut_module.h"
#include "tests/hlo/sample_modules.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

std::vector<std::string> Seeds() {
  using namespace xla_shmem::test;  // NOLINT: the builders
  const Message array = ArrayShape({8});
  const auto with_group_form = [&](uint32_t field, const Message& list) {
    return Module({ReductionComputation("add", 1),
                   Computation("main", 2,
                               {Instruction("p", "parameter", array, 1), Instruction("ar", "all-reduce", array, 2, {1})
                                                                             .Sub(field, list)
                                                                             .Int(26, 1)
                                                                             .Int(71, 1)
                                                                             .Ints(38, {1})},
                               2)},
                  2)
        .str();
  };
  const Message mesh = Message().Sub(1, Message().Bytes(1, "x").Int(2, 2)).Sub(1, Message().Bytes(1, "y").Int(2, 2));
  return {SyncModule(),
          AsyncModule(),
          WrappedModule(),
          FusedModule(),
          DonatingModule(),
          NestedModule(),
          with_group_form(92, Message().Int(1, 2).Int(2, 2).Ints(3, {2, 2}).Ints(4, {1, 0})),
          with_group_form(93, Message().Sub(1, mesh).Sub(2, Message().Int(1, 1))),
          with_group_form(49, Message().Ints(1, {0, 1, 2, 3})),
          ListedModule(),
          CutModule()};
}

std::string Mutate(std::string bytes, const std::vector<std::string>& seeds, std::mt19937& random) {
  const int changes = 1 + static_cast<int>(random() % 6);
  for (int i = 0; i < changes && !bytes.empty(); ++i) {
    const size_t at = random() % bytes.size();
    switch (random() % 6) {
      case 0:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << random() % 8));
        break;
      case 1:
        bytes[at] = static_cast<char>(random());
        break;
      case 2:
        bytes.resize(at);
        break;
      case 3:
        bytes.insert(at, 1 + random() % 4, static_cast<char>(0x7f + random() % 129));
        break;
      case 4:
        bytes.erase(at, 1 + random() % 8);
        break;
      default: {
        const std::string& other = seeds[random() % seeds.size()];
        const size_t from = random() % other.size();
        bytes.insert(at, other, from, random() % 64);
      }
    }
  }
  return bytes;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> seeds = Seeds();
  if (argc == 3 && std::string(argv[1]) == "--write-corpus") {
    for (size_t i = 0; i < seeds.size(); ++i) {
      std::ofstream(std::string(argv[2]) + "/seed" + std::to_string(i), std::ios::binary) << seeds[i];
    }
    return 0;
  }
  const long iterations = argc > 1 ? std::atol(argv[1]) : 20000;
  std::mt19937 random(20240607);
  for (long i = 0; i < iterations; ++i) {
    const std::string input = Mutate(seeds[random() % seeds.size()], seeds, random);
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(input.data()), input.size());
  }
  std::printf("%ld mutated modules survived\n", iterations);
  return 0;
}
