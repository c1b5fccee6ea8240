#include "xla/backends/gpu/shmem/pjrt_job_store.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "xla/pjrt/distributed/in_memory_key_value_store.h"

namespace xla::gpu {
namespace {

constexpr std::chrono::milliseconds kNoTime{1};

TEST(PjrtJobStoreTest, ATextIsReadOnceItIsStored) {
  PjrtJobStore store(std::make_shared<InMemoryKeyValueStore>());
  EXPECT_FALSE(store.Get("key").has_value());
  const auto none = store.Wait("key", kNoTime);
  ASSERT_TRUE(none.ok()) << none.message();
  EXPECT_FALSE(none->has_value());
  EXPECT_TRUE(store.Set("key", "text").ok());
  EXPECT_EQ(store.Get("key"), "text");
  EXPECT_EQ(*store.Wait("key", kNoTime), "text");
}

TEST(PjrtJobStoreTest, AProposalStandsIfItIsTheFirst) {
  PjrtJobStore store(std::make_shared<InMemoryKeyValueStore>(/*allow_overwrite=*/false));
  EXPECT_EQ(*store.Propose("key", "first"), "first");
  EXPECT_EQ(*store.Propose("key", "second"), "first");
  EXPECT_FALSE(store.Set("key", "third").ok());
}

}  // namespace
}  // namespace xla::gpu
