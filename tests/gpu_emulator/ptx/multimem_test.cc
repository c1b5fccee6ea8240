// multimem.ld_reduce and multimem.st, on multicast memory of three members.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "ptx/run_text.h"

namespace ptx::testing {
namespace {

constexpr uint64_t kMulticast = 0x7000;
constexpr size_t kBytes = 64;
alignas(16) char members[3][kBytes];

bool Members(uint64_t address, size_t bytes, std::vector<uint64_t>* found) {
  if (address < kMulticast || address + bytes > kMulticast + kBytes) return false;
  found->clear();
  for (char* const member : members) found->push_back(reinterpret_cast<uint64_t>(member) + address - kMulticast);
  return true;
}

template <typename T>
void Fill(size_t index, T a, T b, T c) {
  const T values[] = {a, b, c};
  for (size_t member = 0; member < 3; ++member) memcpy(members[member] + index * sizeof(T), &values[member], sizeof(T));
}

// Of a kernel of one thread that finds the multicast address in %m.
std::string Run(const std::string& instructions, void* out) {
  SetMulticastMembers(Members);
  const std::string body = ".reg .b32 %r<8>;\n.reg .b64 %d<4>, %m;\nmov.u64 %m, " + std::to_string(kMulticast) + ";\n";
  const std::string error = LaunchText(KernelText(1, body + instructions), 1, {out});
  SetMulticastMembers(nullptr);
  return error;
}

template <typename T>
T Reduced(const std::string& operation, const std::string& reg) {
  T out;
  const std::string width = std::to_string(8 * sizeof(T));
  CHECK(Run("multimem.ld_reduce.relaxed.sys.global." + operation + " " + reg + ", [%m];\nst.global.b" + width +
                " [%p0], " + reg + ";",
            &out) == "");
  return out;
}

}  // namespace

TEST_CASE("Integers and bits are reduced over all members") {
  Fill<uint32_t>(0, 7, 0xfffffffe, 3);
  CHECK(Reduced<uint32_t>("add.u32", "%r0") == 8);
  CHECK(Reduced<uint32_t>("min.u32", "%r0") == 3);
  CHECK(Reduced<uint32_t>("max.u32", "%r0") == 0xfffffffe);
  CHECK(Reduced<int32_t>("min.s32", "%r0") == -2);
  CHECK(Reduced<int32_t>("max.s32", "%r0") == 7);
  Fill<uint64_t>(0, 0xff00, 0x0ff0, uint64_t{1} << 63 | 0x0f00);
  CHECK(Reduced<uint64_t>("and.b64", "%d0") == 0x0f00);
  CHECK(Reduced<uint64_t>("or.b64", "%d0") == (uint64_t{1} << 63 | 0xfff0));
  CHECK(Reduced<uint64_t>("xor.b64", "%d0") == (uint64_t{1} << 63 | (0xff00 ^ 0x0ff0 ^ 0x0f00)));
  CHECK(Reduced<int64_t>("min.s64", "%d0") < 0);
}

TEST_CASE("Floats are added, those of 16 bits in f32 with one rounding") {
  Fill<float>(0, 1, 2, 4);
  Fill<float>(1, 0.5f, -1, 8);
  float out[4];
  const std::string store = "st.global.v4.b32 [%p0], {%r0, %r1, %r2, %r3};";
  CHECK(Run("multimem.ld_reduce.relaxed.sys.global.add.v4.f32 {%r0, %r1, %r2, %r3}, [%m];\n" + store, out) == "");
  CHECK(out[0] == 7);
  CHECK(out[1] == 7.5f);
  // 256 + 1 is no bf16, 256 + 2 is one.
  for (size_t half = 0; half < 2; ++half) Fill<uint16_t>(half, 0x4380, 0x3f80, 0x3f80);
  CHECK(Reduced<uint32_t>("add.acc::f32.bf16x2", "%r0") == 0x43814381);
  Fill<double>(0, 1e300, 1, -1e300);
  CHECK(Reduced<double>("add.f64", "%d0") <= 1);
}

TEST_CASE("A store reaches all members") {
  Fill<uint64_t>(0, 1, 2, 3);
  Fill<uint64_t>(1, 1, 2, 3);
  const std::string body =
      "mov.b32 %r0, 5;\nmov.b32 %r1, 6;\nmultimem.st.relaxed.sys.global.v4.f32 [%m], {%r0, %r1, "
      "%r1, %r0};\nfence.proxy.alias;";
  uint32_t out = 0;
  CHECK(Run(body, &out) == "");
  for (const char* const member : members) {
    uint32_t words[4];
    memcpy(words, member, sizeof(words));
    CHECK(words[0] == 5);
    CHECK(words[1] == 6);
    CHECK(words[3] == 5);
  }
}

// The ordinary address of member 0 is in %d3.
TEST_CASE("An access through an alias needs a fence behind the one before it or before itself") {
  const std::string fence = "fence.proxy.alias;\n", load = "ld.global.b32 %r0, [%d3];\n";
  const std::string store = "st.global.b32 [%d3], 1;\n", store_beside = "st.global.b32 [%d3+16], 1;\n";
  const std::string reduce = "multimem.ld_reduce.relaxed.sys.global.add.u32 %r1, [%m];\n";
  const std::string store_all = "multimem.st.relaxed.sys.global.u32 [%m], %r2;\n";
  const auto run = [](const std::string& body) {
    uint32_t out = 0;
    const std::string member = std::to_string(reinterpret_cast<uint64_t>(members[0]));
    return Run("mov.b32 %r2, 3;\nmov.u64 %d3, " + member + ";\n" + body, &out);
  };
  const std::string lacks = "has no fence.proxy.alias between it and one through an alias";
  const std::string pairs[][2] = {{store, reduce},    {store, store_all}, {store_all, load},
                                  {store_all, store}, {reduce, store},    {load, store_all}};
  for (const auto& [first, second] : pairs) {
    INFO(first << second);
    CHECK(run(first + second).find(lacks) != std::string::npos);
    CHECK(run(fence + first + second).find(lacks) != std::string::npos);
    CHECK(run(first + fence + second) == "");
  }
  CHECK(run(load + reduce) == "");
  CHECK(run(store_beside + reduce + store_all + reduce) == "");
}

TEST_CASE("Ordinary addresses, misaligned ones and forms that the ISA lacks are refused") {
  uint64_t out[2] = {};
  const std::string load = "multimem.ld_reduce.relaxed.sys.global.";
  const std::pair<std::string, const char*> cases[] = {
      {load + "add.u32 %r0, [%p0];", "is not at a multicast address"},
      {load + "add.u64 %d0, [%m+4];", "is misaligned"},
      {load + "add.u64 %d0, [%m+64];", "is not at a multicast address"},
      {load + "add.b32 %r0, [%m];", "its type or modifiers are not understood"},
      {load + "min.f32 %r0, [%m];", "its type or modifiers are not understood"},
      {load + "add.v2.u32 {%r0, %r1}, [%m];", "its type or modifiers are not understood"},
      {load + "add.acc::f32.v4.f32 {%r0, %r1, %r2, %r3}, [%m];", "its type or modifiers are not understood"},
      {"multimem.red.relaxed.sys.global.add.u32 [%m], %r0;", "its type or modifiers are not understood"},
      {"multimem.ld_reduce.add.u32 %r0, [%m];", "its type or modifiers are not understood"},
      {"fence.proxy.async;", "its type or modifiers are not understood"},
  };
  for (const auto& [instruction, reason] : cases) {
    INFO(instruction);
    const std::string error = Run(instruction, out);
    INFO(error);
    CHECK(error.find(reason) != std::string::npos);
  }
}

TEST_CASE("An ordinary load or store at a multicast address ends the kernel with a sentence") {
  SetAccessCheck([](uint64_t, size_t, bool, AccessibleRange*) { return false; });
  uint64_t out = 0;
  for (const std::string access : {"ld.global.b32 %r0, [%m];", "st.global.b32 [%m], 1;"}) {
    CHECK(Run(access, &out).find("is at a multicast address, which only multimem may use") != std::string::npos);
  }
  SetAccessCheck(nullptr);
}

}  // namespace ptx::testing
