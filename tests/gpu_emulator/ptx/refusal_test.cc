// What is not understood is refused before a thread runs, with its text and the reason.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "ptx/run_text.h"

namespace ptx::testing {
namespace {

const std::string kRegisters = ".reg .b16 %h<8>;\n.reg .b32 %r<8>;\n.reg .b64 %d<8>;\n.reg .pred %q<4>;\n";

}  // namespace

TEST_CASE("Instructions and modifiers that are not understood refuse the launch by name") {
  const std::pair<const char*, const char*> cases[] = {
      {"mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%r0}, {%r1}, {%r2}, {%r3};", "instruction mma"},
      {"cp.async.ca.shared.global [%r0], [%d0], 16;", "instruction cp"},
      {"mbarrier.init.shared.b64 [%r0], 1;", "instruction mbarrier"},
      {"add.rna.f32 %r0, %r1, %r2;", "modifier .rna"},
      {"add.f32.rn %r0, %r1, %r2;", "the last modifier is not a type"},
      {"fma.rn.relu.f16 %h0, %h1, %h2, %h3;", "modifier .relu"},
      {"min.xorsign.abs.f32 %r0, %r1, %r2;", "modifier .xorsign"},
      {"add.u8 %h0, %h1, %h2;", "the instruction works on 8 bits"},
      {"mul.u32 %r0, %r1, %r2;", "its type or modifiers are not understood"},
      {"add.f64 %d0, %d1, %r0;", "register %r0 has 32 bits, the instruction works on 64 bits"},
      {"add.u32 %r0, %r1, %q0;", "register %q0 has a predicate"},
      {"add.u32 %r0, %r1;", "operand 3 is missing"},
      {"add.u32 %r0, %r1, %r2, %r3;", "operand 4 is not understood"},
      {"add.u32 %r0, %r1, %x;", "unknown operand '%x'"},
      {"mov.b32 %tid.x, %r1;", "register %tid.x cannot be written"},
      {"mov.u32 %r0, %smid;", "unknown operand '%smid'"},
      {"cvt.f32.f64 %r0, %d0;", "it names no rounding"},
      {"cvt.s32.f32 %r0, %r1;", "it names no rounding to an integer"},
      {"cvt.rm.bf16.f32 %h0, %r1;", "this rounding is not understood"},
      {"ex2.f32 %r0, %r1;", "it needs .approx"},
      {"setp.eq.xyz.u32 %q0, %r0, %r1;", "modifier .xyz"},
      {"setp.lo.s32 %q0, %r0, %r1;", "its type or modifiers are not understood"},
      {"ld.global.L2::cache_hint.b32 %r0, [%d0], %d1;", "modifier .L2::cache_hint"},
      {"ld.shared::cluster.b32 %r0, [%r1];", "modifier .shared::cluster"},
      {"ld.global.b32 %r0, [%r1];", "address %r1 has 32 bits"},
      {"ld.global.v4.b32 {%r0, %r1}, [%d0];", "the vector has another size"},
      {"ld.param.b32 %r0, [nowhere];", "unknown address nowhere"},
      {"st.param.b32 [%d0], %r0;", "parameters of a kernel cannot be written"},
      {"atom.global.add.f16 %h0, [%d0], %h1;", "its type or modifiers are not understood"},
      {"atom.global.add.b32 %r0, [%d0], %r1;", "its type or modifiers are not understood"},
      {"atom.global.add.vec.u32 %r0, [%d0], %r1;", "modifier .vec"},
      {"bar.sync 0, 32;", "a barrier of a part of the block"},
      {"bar.arrive 0, 32;", "modifier .arrive"},
      {"shfl.down.b32 %r0, %r1, 1, 31;", "its type or modifiers are not understood"},
      {"vote.all.pred %q0, %q1;", "its type or modifiers are not understood"},
      {"bra $nowhere;", "unknown label $nowhere"},
      {"@%r0 mov.b32 %r1, %r2;", "unknown guard %r0"},
      {"prmt.b32.f4e %r0, %r1, %r2, %r3;", "its type or modifiers are not understood"},
      {"call.uni some_function, ();", "there is no function some_function"},
      {"isspacep.global %q0, %d0;", "instruction isspacep"},
  };
  for (const auto& [instruction, reason] : cases) {
    uint32_t word = 0;
    // The store comes first, and must not happen.
    const std::string text = KernelText(1, kRegisters + "st.global.b32 [%p0], 1;\n" + instruction);
    INFO(instruction);
    const std::string error = LaunchText(text, 1, {&word});
    INFO(error);
    CHECK(error.find("kernel k: not understood: " +
                     std::string(instruction).substr(0, std::string(instruction).size() - 1)) == 0);
    CHECK(error.find(reason) != std::string::npos);
    CHECK(word == 0);
  }
}

TEST_CASE("A kernel beside one that is refused runs") {
  std::string error;
  const auto module = Parse(
      ".version 8.0\n.target sm_80\n.address_size 64\n.entry bad()\n{\nunknown.b32 ;\nret;\n}\n.entry "
      "good()\n{\nret;\n}\n",
      &error);
  REQUIRE((module != nullptr));
  CHECK(error == "bad: unknown.b32: instruction unknown is not understood (line 6)");
  CHECK(Launch(*FindKernel(*module, "good"), {1, 1, 1}, {1, 1, 1}, 0, {}) == "");
  CHECK(Launch(*FindKernel(*module, "bad"), {1, 1, 1}, {1, 1, 1}, 0, {}) != "");
  CHECK((FindKernel(*module, "other") == nullptr));
}

TEST_CASE("Texts without the structure of PTX are no modules") {
  std::string error;
  for (const char* text :
       {"ELF", ".entry k() { add.u32 ", ".visible .entry k(.param .u32 a) {", ".surprise x;", ".global .b32 a[;"}) {
    INFO(text);
    CHECK((Parse(text, &error) == nullptr));
    CHECK(error.find("line ") == 0);
  }
}

TEST_CASE("Launches must fit the kernel") {
  std::string error;
  const auto module = Parse(
      ".version 8.0\n.target sm_80\n.address_size 64\n.entry k(.param .u32 a)\n.reqntid 32, 2, 1\n{\nret;\n}\n"
      ".entry m()\n.maxntid 64\n{\nret;\n}\n.entry cluster()\n.reqnctapercluster 2\n{\nret;\n}\n",
      &error);
  REQUIRE((module != nullptr));
  const Kernel& k = *FindKernel(*module, "k");
  CHECK(Launch(k, {1, 1, 1}, {32, 2, 1}, 0, std::vector<char>(4)) == "");
  CHECK(Launch(k, {1, 1, 1}, {64, 1, 1}, 0, std::vector<char>(4)) == "kernel k: a block of another size than .reqntid");
  CHECK(Launch(k, {1, 1, 1}, {32, 2, 1}, 0, std::vector<char>(8)) == "kernel k: 8 bytes of arguments instead of 4");
  CHECK(Launch(k, {0, 1, 1}, {32, 2, 1}, 0, std::vector<char>(4)) == "kernel k: a grid or a block without threads");
  const Kernel& m = *FindKernel(*module, "m");
  CHECK(Launch(m, {1, 1, 1}, {65, 1, 1}, 0, {}) == "kernel m: 65 threads in a block are too many");
  CHECK(Launch(m, {1, 1, 1}, {1, 1, 1}, 228 * 1024, {}) == "kernel m: 233472 bytes of shared memory are too many");
  CHECK(Launch(*FindKernel(*module, "cluster"), {1, 1, 1}, {1, 1, 1}, 0, {}) ==
        "kernel cluster: not understood: .reqnctapercluster: directive is not understood");
}

TEST_CASE("Variables without a known content refuse the kernels that use them") {
  uint32_t out = 0;
  const std::string use = ".reg .b32 %x;\nld.global.b32 %x, [v];";
  const std::string error = LaunchText(KernelText(1, use, ".extern .global .align 4 .b32 v;\n"), 1, {&out});
  CHECK(error.find("variable v has no content") != std::string::npos);
  CHECK(LaunchText(KernelText(1, "mov.u32 %t, 1;", ".extern .global .align 4 .b32 v;\n"), 1, {&out}) == "");
  const std::string address = ".global .align 8 .u64 v = other;\n";
  CHECK(LaunchText(KernelText(1, use, address), 1, {&out}).find("value 'other' of variable v") != std::string::npos);
}

TEST_CASE("Comments, scopes and several names in a declaration") {
  const std::string text =
      "/* a\ncomment */ .reg .b32 %x, %y<3>; // another\n{\n.reg .b32 %x;\nmov.b32 %x, 5;\nmov.b32 %y2, "
      "%x;\n}\nmov.b32 %x, 2;\n"
      ".loc 1 2 3\nadd.u32 %d, %x, %y2;";
  CHECK(RunOne<uint32_t>(text, 0U) == 7);
}

}  // namespace ptx::testing
