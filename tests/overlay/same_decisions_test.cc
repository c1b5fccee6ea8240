// The pass of the overlay against the plugin's: on the same modules both write the same decisions, rules, reasons and
// vetoes onto the same instructions, and the overlay's sets the backends that it writes.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "xla/backends/gpu/transforms/collectives/shmem/collective_backend_config.h"
#include "xla/backends/gpu/transforms/collectives/shmem/shmem_backend_assigner.h"
#include "xla/backends/gpu/transforms/collectives/shmem/test_modules.h"
#include "xla/backends/gpu/transforms/collectives/shmem/test_runs.h"
#include "xla/hlo/ir/hlo_casting_utils.h"
#include "xla/hlo/ir/hlo_computation.h"
#include "xla/hlo/ir/hlo_instruction.h"
#include "xla/hlo/ir/hlo_instructions.h"
#include "xla/hlo/ir/hlo_module.h"
#include "xla/service/hlo.pb.h"
#include "xla_patch/assigner/assigner.h"
#include "xla_patch/assigner/record.h"
#include "xla_patch/hlo/rewrite/pass.h"

namespace xla::gpu {
namespace {

using ::xla_shmem::Attributes;

// Every op: alone, in a loop, and as the pairs that XLA has.
constexpr absl::string_view kModule = R"(
body { x = (s32[], f32[4]) parameter(0)  i = s32[] get-tuple-element(x), index=0  v = f32[4] get-tuple-element(x), index=1
       in_loop = f32[4] all-reduce(v), channel_id=1, to_apply=sum, replica_groups={{0,1,2,3},{4,5,6,7}}, use_global_device_ids=true
       ROOT t = (s32[], f32[4]) tuple(i, in_loop) }
cond { x = (s32[], f32[4]) parameter(0)  i = s32[] get-tuple-element(x), index=0  n = s32[] constant(3)
       ROOT lt = pred[] compare(i, n), direction=LT }
wrapped { x = f32[32] parameter(0)  ROOT inner = f32[4] reduce-scatter(x), channel_id=2, to_apply=sum, dimensions={0}, replica_groups=[1,8]<=[8], use_global_device_ids=true }
group {
  x = f32[4] parameter(0)
  g1 = f32[4] collective-permute(x), channel_id=3, source_target_pairs={{0,1}}
  g2 = f32[4] collective-permute(x), channel_id=4, source_target_pairs={{1,0}}
  ROOT t = (f32[4], f32[4]) tuple(g1, g2)
}
ENTRY main {
  p = f32[4] parameter(0)
  i = s32[] parameter(1)
  n = s64[8] parameter(2)
  t = (s32[], f32[4]) tuple(i, p)
  w = (s32[], f32[4]) while(t), condition=cond, body=body
  v = f32[4] get-tuple-element(w), index=1
  big = f32[8388608] broadcast(i), dimensions={}
  large = f32[8388608] all-reduce(big), channel_id=5, to_apply=sum, replica_groups={}
  ag = f32[32] all-gather(v), channel_id=6, use_global_device_ids=true, dimensions={0}, replica_groups=[1,8]<=[8]
  rs = ((f32[32]), f32[4]) async-start(ag), calls=wrapped
  rd = f32[4] async-done(rs)
  gs = ((f32[4]), (f32[4], f32[4])) async-start(rd), calls=group
  gd = (f32[4], f32[4]) async-done(gs)
  aa = f32[32] all-to-all(ag), channel_id=7, dimensions={0}, replica_groups={{0,1,2,3,4,5,6,7}}
  cb = f32[4] collective-broadcast(rd), channel_id=8, replica_groups={{3,1},{2,5}}
  ra = f32[32] ragged-all-to-all(aa, ag, n, n, n, n), channel_id=9, replica_groups={{0,1,2,3,4,5,6,7}}
  cs = (f32[4], f32[4]) collective-permute-start(cb), channel_id=10, source_target_pairs={{0,1},{1,2},{7,0}}
  cd = f32[4] collective-permute-done(cs)
  missing = f32[4] all-reduce(cd), channel_id=11, to_apply=sum, replica_groups={{0,9}}, use_global_device_ids=true
  host = f32[4]{0:S(5)} collective-permute(missing), channel_id=12, source_target_pairs={{0,1}}
  ROOT r = (f32[4], f32[8388608], f32[32]) tuple(missing, large, ra)
})";

// Instruction name -> what a pass wrote on it.
using Written = std::map<std::string, Attributes>;

Written WrittenOn(const HloModule& module) {
  Written written;
  for (const HloComputation* computation : module.computations()) {
    for (const HloInstruction* instruction : computation->instructions()) {
      for (const auto& [key, value] : instruction->frontend_attributes().map()) {
        if (absl::StartsWith(key, xla_shmem::attribute::kPrefix))
          written[std::string(instruction->name())][key] = value;
      }
    }
  }
  return written;
}

Written ByThePlugin(const HloModule& module, const ShmemJob& job) {
  xla_shmem::PassOptions options;
  options.assign = job.rules;
  options.topology = job.topology;
  options.transport = job.transport;
  const xla_shmem::Result<xla_shmem::PassResult> passed =
      xla_shmem::RunPass(module.ToProto().SerializeAsString(), options);
  EXPECT_TRUE(passed.ok()) << passed.message();
  HloModuleProto proto;
  if (!passed.ok() || !proto.ParseFromString(passed->module)) return {};
  const auto rewritten = HloModule::CreateFromProto(proto, module.config());
  EXPECT_TRUE(rewritten.ok()) << rewritten.status();
  return rewritten.ok() ? WrittenOn(**rewritten) : Written();
}

// The backend from which XLA would emit thunks is the one that the attributes name.
void ExpectBackendsAsWritten(const HloModule& module) {
  for (const HloComputation* computation : module.computations()) {
    for (const HloInstruction* instruction : computation->instructions()) {
      if (DynCast<HloChannelInstruction>(instruction) == nullptr) continue;
      const std::string written = Attribute(module, instruction->name(), "lowered");
      EXPECT_EQ(IsOnNvshmem(*instruction), written == "NVSHMEM") << instruction->name() << ": " << written;
    }
  }
}

Written ByTheOverlay(const HloModule& module, const ShmemJob& job) {
  const std::unique_ptr<HloModule> copy = module.Clone("");
  ShmemBackendAssigner pass(job);
  const auto changed = pass.Run(copy.get());
  EXPECT_TRUE(changed.ok()) << changed.status();
  ExpectBackendsAsWritten(*copy);
  return WrittenOn(*copy);
}

class SameDecisionsTest : public ::testing::Test {
 protected:
  SameDecisionsTest() : module_(Parse(absl::StrCat("HloModule m\n", kReductions, kModule), 1, 8)) {
    PlaceOn({{1}, {0}, {2}, {3}, {4}, {5}, {7}, {6}}, module_.get());
  }

  std::unique_ptr<HloModule> module_;
};

TEST_F(SameDecisionsTest, BothPassesWriteTheSameOntoTheSameInstructions) {
  std::map<std::string, int> rules;
  for (const xla_shmem::Profile profile : {xla_shmem::Profile::kUpstream, xla_shmem::Profile::kDomain}) {
    for (const int64_t per_domain : {0, 4, 8}) {
      ShmemJob job = Job(8, /*per_process=*/per_domain == 0 ? 1 : 2, per_domain);
      job.rules.profile = profile;
      for (const xla_shmem::CollectiveOpInfo& info : xla_shmem::kCollectiveOps) job.rules.ops.push_back({info.op, {}});
      const Written plugin = ByThePlugin(*module_, job);
      EXPECT_EQ(ByTheOverlay(*module_, job), plugin) << per_domain;
      for (const auto& [name, attributes] : plugin) ++rules[attributes.at(xla_shmem::attribute::kRule)];
    }
  }
  for (const char* rule : {"single-device", "nvlink-domain", "no-placement", "group-in-domain", "group-across-domains",
                           "unresolved-groups"}) {
    EXPECT_GT(rules[rule], 0) << rule;
  }
}

// The comparison itself: a difference in rules, topology or transport has to show.
TEST_F(SameDecisionsTest, ADifferenceShows) {
  const ShmemJob job = Job(8, 1, 0);
  const Written plugin = ByThePlugin(*module_, job);
  EXPECT_EQ(ByTheOverlay(*module_, job), plugin);
  ShmemJob other = job;
  other.rules.threshold = 8;
  EXPECT_NE(ByTheOverlay(*module_, other), plugin);
  other = job;
  other.topology = xla_shmem::Topology();
  EXPECT_NE(ByTheOverlay(*module_, other), plugin);
  other = job;
  other.transport.carried.clear();
  EXPECT_NE(ByTheOverlay(*module_, other), plugin);
}

}  // namespace
}  // namespace xla::gpu
