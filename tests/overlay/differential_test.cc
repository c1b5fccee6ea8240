// The pass of the overlay against the plugin's: the same modules, read once as xla::HloInstruction and once as bytes,
// have to get the same decisions, rules, reasons and vetoes on the same instructions.
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "tests/overlay/random_module.h"
#include "xla/backends/gpu/transforms/collectives/shmem/collective_backend_config.h"
#include "xla/backends/gpu/transforms/collectives/shmem/hlo_collective.h"
#include "xla/backends/gpu/transforms/collectives/shmem/shmem_backend_assigner.h"
#include "xla/backends/gpu/transforms/collectives/shmem/test_modules.h"
#include "xla/hlo/ir/hlo_module.h"
#include "xla/hlo/ir/hlo_opcode.h"
#include "xla/service/hlo.pb.h"
#include "xla/service/hlo_verifier.h"
#include "xla_patch/assigner/record.h"
#include "xla_patch/hlo/rewrite/pass.h"

namespace xla::gpu {
namespace {

using ::xla_shmem::Attributes;
using ::xla_shmem::test::RandomModule;

constexpr uint64_t kSeeds = 1500;

// Instruction name -> what a pass wrote on it.
using Written = std::map<std::string, Attributes>;

// [2,4]<=[8] and [2,4]<=[4,2]T(1,0) as axes of a mesh.
void SayIotaAsMesh(HloInstructionProto* instruction) {
  const IotaReplicaGroupListProto iota = instruction->iota_collective_device_list();
  MeshAxesReplicaGroupListProto* list = instruction->mutable_mesh_axes_replica_group_list();
  const bool is_transposed = iota.iota_reshape_dims_size() == 2;
  const int64_t sizes[] = {iota.num_replica_groups(), iota.num_devices_per_group()};
  for (const int axis : {0, 1}) {
    auto* added = list->mutable_mesh()->add_axes();
    added->set_name(axis == 0 ? "x" : "y");
    added->set_size(sizes[is_transposed ? 1 - axis : axis]);
  }
  list->add_axes()->set_mesh_axis_index(is_transposed ? 0 : 1);
}

std::unique_ptr<HloModule> Build(const RandomModule& random) {
  std::unique_ptr<HloModule> module = Parse(random.text, random.replicas, random.partitions);
  if (module == nullptr) {
    return nullptr;
  }
  if (!random.by_partition.empty()) {
    PlaceOn(random.by_partition, module.get());
  }
  if (!random.lists_as_mesh) {
    return module;
  }
  HloModuleProto proto = module->ToProto();
  for (HloComputationProto& computation : *proto.mutable_computations()) {
    for (HloInstructionProto& instruction : *computation.mutable_instructions()) {
      if (instruction.has_iota_collective_device_list()) {
        SayIotaAsMesh(&instruction);
      }
    }
  }
  auto meshed = HloModule::CreateFromProto(proto, module->config());
  EXPECT_TRUE(meshed.ok()) << meshed.status() << "\n" << random.text;
  return meshed.ok() ? *std::move(meshed) : nullptr;
}

Written Ours(const HloModule& module) {
  Written written;
  for (const HloComputation* computation : module.computations()) {
    for (const HloInstruction* instruction : computation->instructions()) {
      for (const auto& [key, value] : instruction->frontend_attributes().map()) {
        if (key.find(xla_shmem::attribute::kPrefix) == 0) {
          written[std::string(instruction->name())][key] = value;
        }
      }
    }
  }
  return written;
}

Written ByThePlugin(const HloModule& module, const RandomModule& random, xla_shmem::PassResult* result) {
  xla_shmem::PassOptions options;
  options.assign = random.rules;
  options.topology = random.topology;
  options.transport = random.transport;
  xla_shmem::Result<xla_shmem::PassResult> passed = xla_shmem::RunPass(module.ToProto().SerializeAsString(), options);
  EXPECT_TRUE(passed.ok()) << passed.message();
  if (!passed.ok()) {
    return {};
  }
  *result = *std::move(passed);
  if (!result->changed) {
    return {};
  }
  HloModuleProto proto;
  EXPECT_TRUE(proto.ParseFromString(result->module));
  auto rewritten = HloModule::CreateFromProto(proto, module.config());
  EXPECT_TRUE(rewritten.ok()) << rewritten.status();
  return rewritten.ok() ? Ours(**rewritten) : Written();
}

Written ByTheOverlay(HloModule* module, const RandomModule& random) {
  ShmemBackendAssigner pass({random.rules, random.topology, random.transport});
  const auto changed = pass.Run(module);
  EXPECT_TRUE(changed.ok()) << changed.status();
  return Ours(*module);
}

std::string Text(const Attributes& attributes) {
  std::string text;
  for (const auto& [key, value] : attributes) {
    text += "  " + key + "=" + value + "\n";
  }
  return text;
}

// Two intended differences, both in wording: decision and rule, and that there is a veto, have to agree there as well.
//
// A wrapped collective with a tiled layout: the plugin checks the pair first and reports "its start and done differ in
// shape"; the overlay reports the layout.
//
// Groups with more ids than there are devices: the plugin reports "more than 8 ids", because it does not expand a
// number that may be absurd; XLA has expanded them already, so the overlay names one.
void ForgetWording(const char* key, const std::string& plugins, Attributes* by_plugin, Attributes* by_overlay) {
  const auto text = by_plugin->find(key);
  if (text != by_plugin->end() && text->second.find(plugins) != std::string::npos && by_overlay->erase(key) == 1) {
    by_plugin->erase(text);
  }
}

// Instructions on which the two wrote different things.
std::string Differences(const Written& plugin, const Written& overlay) {
  std::string differences;
  Written both = plugin;
  both.insert(overlay.begin(), overlay.end());
  for (const auto& entry : both) {
    const std::string& name = entry.first;
    Attributes by_plugin = plugin.count(name) > 0 ? plugin.at(name) : Attributes();
    Attributes by_overlay = overlay.count(name) > 0 ? overlay.at(name) : Attributes();
    ForgetWording(xla_shmem::attribute::kVeto, "its start and done differ in shape", &by_plugin, &by_overlay);
    if (const auto rule = by_plugin.find(xla_shmem::attribute::kRule);
        rule != by_plugin.end() && rule->second == "unresolved-groups") {
      ForgetWording(xla_shmem::attribute::kReason, "more than ", &by_plugin, &by_overlay);
    }
    if (by_plugin != by_overlay) {
      differences += name + ", plugin:\n" + Text(by_plugin) + name + ", overlay:\n" + Text(by_overlay);
    }
  }
  return differences;
}

// Counts of the cases that both passes saw. A generator that stops making some case fails the test.
struct Seen {
  std::map<std::string, int> rules;
  std::map<std::string, int> vetoes;  // by their first words
  std::map<std::string, int> forms;
  int collectives = 0;
};

void Count(const xla_shmem::PassResult& result, const HloModule& module, Seen* seen) {
  for (const xla_shmem::CollectiveRecord& record : result.records) {
    ++seen->collectives;
    ++seen->rules[record.rule];
    if (!record.veto.empty()) {
      ++seen->vetoes[record.veto.substr(0, 12)];
    }
  }
  for (const HloComputation* computation : module.computations()) {
    for (const HloInstruction* instruction : computation->instructions()) {
      ++seen->forms[std::string(HloOpcodeString(instruction->opcode()))];
    }
  }
}

void ExpectBackendsFollow(const HloModule& module, const Written& written) {
  for (const HloComputation* computation : module.computations()) {
    for (const HloInstruction* instruction : computation->instructions()) {
      const auto found = written.find(std::string(instruction->name()));
      const bool is_nvshmem =
          found != written.end() && found->second.at(xla_shmem::attribute::kLowered) == "NVSHMEM" &&
          instruction->opcode() != HloOpcode::kAsyncStart &&
          !HloPredicateIsOp<HloOpcode::kAsyncDone, HloOpcode::kAllReduceDone, HloOpcode::kCollectivePermuteDone>(
              instruction);
      EXPECT_EQ(IsOnNvshmem(*instruction), is_nvshmem) << instruction->ToString();
    }
  }
}

TEST(DifferentialTest, OverlayAndPluginWriteTheSameOntoTheSameInstructions) {
  Seen seen;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const RandomModule random = xla_shmem::test::MakeRandomModule(seed);
    const std::unique_ptr<HloModule> module = Build(random);
    ASSERT_NE(module, nullptr) << "seed " << seed;
    xla_shmem::PassResult result;
    const Written plugin = ByThePlugin(*module, random, &result);
    const Written overlay = ByTheOverlay(module.get(), random);
    ASSERT_EQ(Differences(plugin, overlay), "") << "seed " << seed << "\n" << random.text;
    ExpectBackendsFollow(*module, overlay);
    Count(result, *module, &seen);
  }
  EXPECT_GT(seen.collectives, 2 * static_cast<int>(kSeeds));
  for (const char* rule :
       {"single-device", "single-partition", "nvlink-domain", "group-in-domain", "model", "size", "no-placement",
        "group-across-domains", "unconsidered-op", "unresolved-groups", "unknown-device"}) {
    EXPECT_GT(seen.rules[rule], 10) << rule;
  }
  for (const char* veto : {"no library", "no SHMEM all", "the reductio", "a replica gr", "it works on ", "s4 has no wh",
                           "operand and ", "device 1 (PE"}) {
    EXPECT_GT(seen.vetoes[veto], 3) << veto;
  }
  for (const char* form : {"all-reduce", "all-reduce-start", "collective-permute", "collective-permute-start",
                           "async-start", "while", "all-gather", "reduce-scatter", "all-to-all"}) {
    EXPECT_GT(seen.forms[form], 50) << form;
  }
}

// The comparison itself: one threshold, one PE or one group less in one of the passes has to show.
TEST(DifferentialTest, ADifferenceInRulesOrTopologyOrTransportShows) {
  int by_rules = 0;
  int by_topology = 0;
  int by_transport = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    const RandomModule random = xla_shmem::test::MakeRandomModule(seed);
    const std::unique_ptr<HloModule> module = Build(random);
    ASSERT_NE(module, nullptr) << "seed " << seed;
    xla_shmem::PassResult result;
    const Written plugin = ByThePlugin(*module, random, &result);
    RandomModule rules = random;
    rules.rules.threshold = random.rules.threshold / 2;
    by_rules += plugin != ByTheOverlay(module->Clone("").get(), rules);
    RandomModule topology = random;
    topology.topology = xla_shmem::Topology();
    by_topology += plugin != ByTheOverlay(module->Clone("").get(), topology);
    RandomModule transport = random;
    transport.transport.carried.clear();
    by_transport += plugin != ByTheOverlay(module->Clone("").get(), transport);
  }
  EXPECT_GT(by_rules, 20);
  EXPECT_GT(by_topology, 100);
  EXPECT_GT(by_transport, 50);
}

TEST(DifferentialTest, GeneratedModulesAreWhatXlaAccepts) {
  int verified = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    const std::unique_ptr<HloModule> module = Build(xla_shmem::test::MakeRandomModule(seed));
    ASSERT_NE(module, nullptr) << "seed " << seed;
    HloVerifier verifier(/*layout_sensitive=*/false, /*allow_mixed_precision=*/false);
    const auto result = verifier.Run(module.get());
    verified += result.ok();
  }
  EXPECT_GT(verified, 100);  // the rest names replicas that do not exist, for the rules about those
}

}  // namespace
}  // namespace xla::gpu
