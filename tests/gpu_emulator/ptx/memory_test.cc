// Loads, stores and atomic operations, and what is refused of them.
#include <cstdint>
#include <numeric>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "ptx/run_text.h"

namespace ptx::testing {
namespace {

bool Contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("Narrow loads extend by the sign, narrow stores cut") {
  const std::vector<uint32_t> in = {0x818283ff};
  std::vector<int32_t> out(4);
  const std::string body =
      ".reg .b32 %x<4>;\n.reg .b16 %h;\nld.global.s8 %x0, [%p0];\nld.global.u8 %x1, [%p0+1];\nld.global.s16 %x2, "
      "[%p0+2];\n"
      "ld.global.u8 %h, [%p0+3];\ncvt.u32.u16 %x3, %h;\nst.global.v4.b32 [%p1], {%x0, %x1, %x2, %x3};";
  REQUIRE(LaunchText(KernelText(2, body), 1, {in.data(), out.data()}) == "");
  CHECK(out == std::vector<int32_t>{-1, 0x83, static_cast<int16_t>(0x8182), 0x81});
  std::vector<uint32_t> cut = {0xffffffff};
  const std::string store = ".reg .b32 %x;\nmov.b32 %x, 0x12345678;\nst.global.b8 [%p0+1], %x;";
  REQUIRE(LaunchText(KernelText(1, store), 1, {cut.data()}) == "");
  CHECK(cut[0] == 0xffff78ff);
}

TEST_CASE("Vectors") {
  const std::vector<uint64_t> in = {1, 2};
  alignas(16) uint64_t out[2] = {};
  const std::string body =
      ".reg .b64 %x<2>;\nld.global.nc.v2.b64 {%x0, %x1}, [%p0];\nst.global.v2.b64 [%p1], {%x1, %x0};";
  REQUIRE(LaunchText(KernelText(2, body), 1, {in.data(), out}) == "");
  CHECK(out[0] == 2);
  CHECK(out[1] == 1);
}

TEST_CASE("One element in braces") {
  uint32_t out = 0;
  const std::string body = ".reg .b32 %x;\nmov.b32 %x, 9;\nst.global.b32 [ %p0 + 0 ], { %x };";
  REQUIRE(LaunchText(KernelText(1, body), 1, {&out}) == "");
  CHECK(out == 9);
}

TEST_CASE("Shared memory is of the block, and starts as garbage") {
  std::vector<uint32_t> out(64);
  const std::string body =
      ".shared .align 4 .b8 s[256];\n.reg .b32 %x, %y;\n.reg .b64 %a;\nmov.u32 %x, s;\nmad.lo.u32 %y, %t, 4, %x;\n"
      "ld.shared.b32 %x, [%y];\nmad.wide.u32 %a, %t, 4, %p0;\nst.global.b32 [%a], %x;\nst.shared.b32 [%y], 0;";
  REQUIRE(LaunchText(KernelText(1, body), 64, {out.data()}) == "");
  CHECK(out[0] != 0);
  CHECK(out[63] != 0);
}

TEST_CASE("Registers start as garbage") {
  const uint32_t found = RunOne<uint32_t>(".reg .b32 %never;\nmov.b32 %d, %never;", 0U);
  CHECK(found != 0);
}

TEST_CASE("Dynamic shared memory lies behind the rest") {
  std::vector<uint32_t> out(1);
  const std::string body =
      ".reg .b32 %x, %y;\nst.shared.b32 [dynamic], 5;\nst.shared.b32 [fixed], 7;\nld.shared.b32 %x, [dynamic];\n"
      "ld.shared.b32 %y, [fixed];\nmad.lo.u32 %x, %x, 10, %y;\nst.global.b32 [%p0], %x;";
  const std::string declarations = ".extern .shared .align 16 .b8 dynamic[];\n.shared .align 4 .b8 fixed[64];\n";
  REQUIRE(LaunchText(KernelText(1, body, declarations), 1, {out.data()}, 1, 16) == "");
  CHECK(out[0] == 57);
  // Without the dynamic bytes the same access is out of bounds.
  const std::string error = LaunchText(KernelText(1, body, declarations), 1, {out.data()});
  CHECK(Contains(error, "shared memory is out of bounds"));
  CHECK(Contains(error, "st.shared.b32 [dynamic], 5"));
}

TEST_CASE("Local memory is of the thread; generic addresses reach all state spaces") {
  std::vector<uint32_t> out(32);
  const std::string body =
      ".local .align 8 .b8 l[16];\n.reg .b64 %a, %b;\n.reg .b32 %x;\nmov.u64 %a, l;\ncvta.local.u64 %b, %a;\n"
      "st.local.b32 [%a+8], %t;\nbar.sync 0;\nld.b32 %x, [%b+8];\nmad.wide.u32 %a, %t, 4, %p0;\nst.b32 [%a], %x;";
  REQUIRE(LaunchText(KernelText(1, body), 32, {out.data()}) == "");
  for (uint32_t k = 0; k < 32; ++k) CHECK(out[k] == k);
  const std::string beyond = ".local .align 8 .b8 l[16];\n.reg .b32 %x;\nld.local.b32 %x, [l+16];";
  CHECK(Contains(LaunchText(KernelText(1, beyond), 1, {out.data()}), "local memory is out of bounds"));
}

TEST_CASE("Misaligned accesses end the launch") {
  std::vector<uint64_t> memory(4);
  CHECK(Contains(LaunchText(KernelText(1, ".reg .b32 %x;\nld.global.b32 %x, [%p0+2];"), 1, {memory.data()}),
                 "misaligned"));
  const std::string vector = ".reg .b32 %x<4>;\nld.global.v4.b32 {%x0, %x1, %x2, %x3}, [%p0+8];";
  alignas(16) uint64_t aligned[4] = {};
  const std::string error = LaunchText(KernelText(1, vector), 1, {aligned});
  CHECK(Contains(error, "a read of 16 bytes"));
  CHECK(Contains(error, "misaligned"));
}

TEST_CASE("The driver judges accesses to device memory") {
  static std::vector<uint32_t> allowed(64), forbidden(64);
  static int asked = 0;
  asked = 0;
  SetAccessCheck([](uint64_t address, size_t bytes, bool write, AccessibleRange* range) {
    ++asked;
    const auto begin = reinterpret_cast<uint64_t>(allowed.data());
    *range = {begin, begin + 4 * allowed.size()};
    return !write && begin <= address && address + bytes <= range->end;
  });
  const std::string read = ".reg .b64 %a;\n.reg .b32 %x;\nmad.wide.u32 %a, %t, 4, %p0;\nld.global.b32 %x, [%a];";
  CHECK(LaunchText(KernelText(1, read), 64, {allowed.data()}, 1) == "");
  CHECK(asked == 1);  // of two warps: the range is remembered
  CHECK(Contains(LaunchText(KernelText(1, read), 65, {allowed.data()}), "is not in an allocation"));
  CHECK(Contains(LaunchText(KernelText(1, read), 64, {forbidden.data()}), "a read of 4 bytes"));
  CHECK(Contains(LaunchText(KernelText(1, "st.global.b32 [%p0], 1;"), 1, {allowed.data()}), "a write of 4 bytes"));
  CHECK(allowed[0] == 0);
  // Variables of the module are accessible without the driver.
  const std::string variable = ".reg .b32 %x;\nld.global.b32 %x, [v+4];\nst.global.b32 [v], %x;";
  CHECK(LaunchText(KernelText(1, variable, ".visible .global .align 4 .b32 v[2] = {1, 2};\n"), 1, {allowed.data()}) ==
        "");
  SetAccessCheck(nullptr);
}

TEST_CASE("Ranges are asked for again when they were forgotten, and in each launch") {
  static int asked = 0;
  asked = 0;
  std::vector<uint32_t> memory(2);
  const std::string reads = ".reg .b32 %x, %y;\nld.global.b32 %x, [%p0];\nld.global.b32 %y, [%p0+4];";
  SetAccessCheck([](uint64_t address, size_t, bool, AccessibleRange* range) {
    if (++asked == 2) ForgetAccessibleRanges();
    *range = {address, address + 8};
    return true;
  });
  REQUIRE(LaunchText(KernelText(1, reads), 1, {memory.data()}) == "");
  CHECK(asked == 1);
  REQUIRE(LaunchText(KernelText(1, reads), 1, {memory.data()}) == "");  // forgotten within the launch
  CHECK(asked == 3);
  SetAccessCheck(nullptr);
}

TEST_CASE("Atomic operations return the old value") {
  uint32_t word = 10;
  const auto run = [&](const std::string& instruction) {
    uint32_t old = 0;
    const std::string body = ".reg .b32 %d;\n" + instruction + "\nst.global.b32 [%p1], %d;";
    REQUIRE(LaunchText(KernelText(2, body), 1, {&word, &old}) == "");
    return old;
  };
  CHECK(run("atom.global.add.u32 %d, [%p0], 5;") == 10);
  CHECK(word == 15);
  CHECK(run("atom.global.relaxed.sys.exch.b32 %d, [%p0], 3;") == 15);
  CHECK(run("atom.global.cas.b32 %d, [%p0], 4, 9;") == 3);
  CHECK(word == 3);
  CHECK(run("atom.acq_rel.gpu.global.cas.b32 %d, [%p0], 3, 9;") == 3);
  CHECK(run("atom.global.max.s32 %d, [%p0], -1;") == 9);
  CHECK(word == 9);
  CHECK(run("atom.global.max.u32 %d, [%p0], 0xffffffff;") == 9);
  CHECK(run("atom.global.min.s32 %d, [%p0], 7;") == 0xffffffff);
  CHECK(word == 0xffffffff);
  CHECK(run("atom.global.and.b32 %d, [%p0], 6;") == 0xffffffff);
  CHECK(run("atom.global.or.b32 %d, [%p0], 1;") == 6);
  CHECK(run("atom.global.xor.b32 %d, [%p0], 2;") == 7);
  CHECK(run("atom.global.inc.u32 %d, [%p0], 5;") == 5);
  CHECK(word == 0);
  CHECK(run("atom.global.dec.u32 %d, [%p0], 5;") == 0);
  CHECK(word == 5);
}

TEST_CASE("Atomic sums of all threads, of blocks and of the host's threads") {
  alignas(8) uint32_t counter = 0;
  float total = 0;
  uint64_t wide = 0;
  const std::string body =
      "red.global.add.u32 [%p0], 1;\n.reg .b32 %x;\natom.global.add.f32 %x, [%p1], 0f3F000000;\nred.global.add.u64 "
      "[%p2], 3;";
  const std::string text = KernelText(3, body);
  std::vector<std::thread> launches;
  for (int k = 0; k < 3; ++k) {
    launches.emplace_back([&] { CHECK(LaunchText(text, 96, {&counter, &total, &wide}, 5) == ""); });
  }
  for (std::thread& launch : launches) launch.join();
  CHECK(counter == 3 * 96 * 5);
  CHECK(total == 0.5f * 3 * 96 * 5);
  CHECK(wide == 3 * 3 * 96 * 5);
}

TEST_CASE("Atomic sums of narrow floats") {
  alignas(4) uint16_t values[2] = {0x3c00, 0x3c00};  // 1, 1
  const std::string body =
      ".reg .b16 %h, %o;\nmov.b16 %h, 0x3c00;\natom.global.add.noftz.f16 %o, [%p0], %h;\n.reg .b32 %w, %v;\n"
      "mov.b32 %w, {%h, %h};\natom.global.add.noftz.f16x2 %v, [%p0], %w;";
  REQUIRE(LaunchText(KernelText(1, body), 1, {values}) == "");
  CHECK(values[0] == 0x4200);  // 3
  CHECK(values[1] == 0x4000);  // 2
}

TEST_CASE("Variables have their initial values") {
  std::vector<uint32_t> out(3);
  const std::string body =
      ".reg .b32 %x;\nld.const.b32 %x, [c];\nst.global.b32 [%p0], %x;\nld.global.b32 %x, [f+4];\nst.global.b32 "
      "[%p0+4], %x;\n"
      ".reg .b64 %a;\nmov.u64 %a, bytes;\nld.global.b32 %x, [%a];\nst.global.b32 [%p0+8], %x;";
  const std::string declarations =
      ".const .align 4 .u32 c = -2;\n.global .align 4 .f32 f[2] = {0f3F800000, 0f40000000};\n"
      ".visible .global .align 4 .b8 bytes[4] = {1, 2, 3};\n";
  REQUIRE(LaunchText(KernelText(1, body, declarations), 1, {out.data()}) == "");
  CHECK(out == std::vector<uint32_t>{0xfffffffe, 0x40000000, 0x00030201});
}

}  // namespace ptx::testing
