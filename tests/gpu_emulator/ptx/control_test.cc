// Threads that take different paths, barriers, and what lanes exchange.
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "ptx/run_text.h"

namespace ptx::testing {
namespace {

bool Contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::vector<uint32_t> Iota(size_t count) {
  std::vector<uint32_t> values(count);
  std::iota(values.begin(), values.end(), 0U);
  return values;
}

}  // namespace

TEST_CASE("Lanes leave a loop at different turns and meet behind it") {
  const std::string loop =
      "mov.b32 %d, 0;\n.reg .b32 %n;\nmov.b32 %n, %a;\n$loop:\nsetp.eq.u32 %q, %n, 0;\n@%q bra $done;\nadd.u32 %d, %d, "
      "%n;\n"
      "sub.u32 %n, %n, 1;\nbra.uni $loop;\n$done:\nactivemask.b32 %n;\nsetp.eq.u32 %q, %n, 0xffffffff;\n@!%q trap;";
  const std::vector<uint32_t> a = Iota(96);
  const std::vector<uint32_t> sums = Run<uint32_t>(loop, a);
  for (uint32_t k = 0; k < 96; ++k) CHECK(sums[k] == k * (k + 1) / 2);
}

TEST_CASE("Guards and negated guards") {
  const std::string text = "setp.lt.u32 %q, %a, 5;\nmov.b32 %d, 1;\n@%q mov.b32 %d, 2;\n@!%q add.u32 %d, %d, 9;";
  const std::vector<uint32_t> found = Run<uint32_t>(text, Iota(10));
  for (uint32_t k = 0; k < 10; ++k) CHECK(found[k] == (k < 5 ? 2 : 10));
}

TEST_CASE("Jump tables") {
  const std::string text =
      "brx.idx %a, $table;\n$table: .branchtargets $zero, $one, $two;\n$zero:\nmov.b32 %d, 100;\nbra $end;\n$one:\n"
      "mov.b32 %d, 200;\nbra $end;\n$two:\nmov.b32 %d, 300;\n$end:";
  CHECK(Run<uint32_t>(text, std::vector<uint32_t>{2, 0, 1, 1}) == std::vector<uint32_t>{300, 100, 200, 200});
}

TEST_CASE("A lane that waits for another one of its warp does not stop it") {
  uint32_t flag = 0;
  const std::string body =
      ".reg .pred %q;\n.reg .b32 %x;\nsetp.eq.u32 %q, %t, 7;\n@%q bra $set;\n$wait:\nld.volatile.global.b32 %x, "
      "[%p0];\n"
      "setp.eq.u32 %q, %x, 0;\n@%q bra $wait;\nbra $end;\n$set:\nst.volatile.global.b32 [%p0], 1;\n$end:";
  CHECK(LaunchText(KernelText(1, body), 32, {&flag}) == "");
}

TEST_CASE("Lanes go on while some wait for all and others for a lane") {
  // Lanes 0 to 9 wait at the vote, 10 to 19 for the word, which the others set after a long way.
  uint32_t flag = 0;
  const std::string body =
      ".reg .pred %q;\n.reg .b32 %x, %n;\nmov.b32 %n, 9000;\nsetp.lt.u32 %q, %t, 10;\n@%q bra $vote;\n"
      "setp.ge.u32 %q, %t, 20;\n@%q bra $way;\n$wait:\nld.volatile.global.b32 %x, [%p0];\nsetp.eq.u32 %q, %x, 0;\n"
      "@%q bra $wait;\nbra $vote;\n$way:\nsub.u32 %n, %n, 1;\nsetp.ne.u32 %q, %n, 0;\n@%q bra $way;\n"
      "st.volatile.global.b32 [%p0], 1;\n$vote:\nvote.sync.all.pred %q, %q, 0xffffffff;";
  CHECK(LaunchText(KernelText(1, body), 32, {&flag}) == "");
  CHECK(flag == 1);
}

TEST_CASE("Blocks that look at a word without a sleep do not keep the others from beginning") {
  // All blocks but one wait for the word that this one sets. Whichever it is, blocks begin in an order by the seed.
  for (const char* setter : {"0", "1", "13", "31"}) {
    uint32_t flag = 0;
    const std::string body =
        ".reg .pred %q;\n.reg .b32 %x;\nsetp.eq.u32 %q, %t1, " + std::string(setter) +
        ";\n@%q bra $set;\n$wait:\nld.volatile.global.b32 %x, [%p0];\nsetp.eq.u32 %q, %x, 0;\n@%q bra $wait;\n"
        "bra $end;\n$set:\nst.volatile.global.b32 [%p0], 1;\n$end:";
    CHECK(LaunchText(KernelText(1, body), 1, {&flag}, 32) == "");
    CHECK(flag == 1);
  }
}

TEST_CASE("A barrier separates what warps do") {
  std::vector<uint32_t> out(256);
  // Each thread reads what the thread opposite to it has written.
  const std::string body =
      ".shared .align 4 .b8 s[1024];\n.reg .b32 %x, %y;\n.reg .b64 %a;\nshl.b32 %x, %t, 2;\nst.shared.b32 [%x], %t;\n"
      "bar.sync 0;\nxor.b32 %y, %x, 1020;\nld.shared.b32 %y, [%y];\ncvt.u64.u32 %a, %x;\nadd.s64 %a, %p0, %a;\n"
      "st.global.b32 [%a], %y;";
  REQUIRE(LaunchText(KernelText(1, body), 256, {out.data()}) == "");
  for (uint32_t k = 0; k < 256; ++k) CHECK(out[k] == 255 - k);
}

TEST_CASE("Without the barrier it is wrong") {
  std::vector<uint32_t> out(256);
  const std::string body =
      ".shared .align 4 .b8 s[1024];\n.reg .b32 %x, %y;\n.reg .b64 %a;\nshl.b32 %x, %t, 2;\nst.shared.b32 [%x], %t;\n"
      "xor.b32 %y, %x, 1020;\nld.shared.b32 %y, [%y];\ncvt.u64.u32 %a, %x;\nadd.s64 %a, %p0, %a;\nst.global.b32 [%a], "
      "%y;";
  REQUIRE(LaunchText(KernelText(1, body), 256, {out.data()}) == "");
  bool right = true;
  for (uint32_t k = 0; k < 256; ++k) right &= out[k] == 255 - k;
  CHECK_FALSE(right);
}

TEST_CASE("Barriers that not all threads reach are refused") {
  const std::string head = ".reg .pred %q;\nsetp.lt.u32 %q, %t, ";
  const std::string half_a_warp = head + "16;\n@!%q bra $end;\nbar.sync 0;\n$end:";
  CHECK(Contains(LaunchText(KernelText(0, half_a_warp), 32, {}), "some of this warp have ended"));
  const std::string one_warp = head + "32;\n@!%q bra $end;\nbar.sync 0;\n$end:";
  CHECK(Contains(LaunchText(KernelText(0, one_warp), 64, {}), "has ended"));
  const std::string other_number = head + "32;\n@!%q bra $else;\nbar.sync 0;\nret;\n$else:\nbar.sync 1;";
  CHECK(Contains(LaunchText(KernelText(0, other_number), 64, {}), "waits at another barrier"));
  const std::string two_places =
      head + "16;\n@!%q bra $else;\nbar.sync 0;\nbra $end;\n$else:\nbar.sync 0;\n$end:\nmov.b32 %t, 1;";
  CHECK(Contains(LaunchText(KernelText(0, two_places), 32, {}), "wait for each other at different instructions"));
}

TEST_CASE("Blocks run in an order that is not theirs") {
  std::vector<uint32_t> order(64);
  uint32_t next = 0;
  const std::string body =
      ".reg .b32 %x, %b;\n.reg .b64 %a;\nmov.u32 %b, %ctaid.x;\natom.global.add.u32 %x, [%p1], 1;\n"
      "mad.wide.u32 %a, %x, 4, %p0;\nst.global.b32 [%a], %b;";
  REQUIRE(LaunchText(KernelText(2, body), 1, {order.data(), &next}, 64) == "");
  CHECK_FALSE(std::is_sorted(order.begin(), order.end()));
  std::sort(order.begin(), order.end());
  CHECK(order == Iota(64));
}

TEST_CASE("A block that sleeps lets other blocks run, also those that started later") {
  // Each block adds one to the word, then waits until all have done so.
  uint32_t arrived = 0;
  const std::string body =
      ".reg .pred %q;\n.reg .b32 %x;\natom.global.add.u32 %x, [%p0], 1;\n$wait:\nld.relaxed.sys.global.b32 %x, [%p0];\n"
      "setp.ge.u32 %q, %x, 40;\n@%q bra $end;\nnanosleep.u32 20;\nbra $wait;\n$end:";
  CHECK(LaunchText(KernelText(1, body), 1, {&arrived}, 40) == "");
  CHECK(arrived == 40);
}

TEST_CASE("Shuffles") {
  const std::vector<uint32_t> a = Iota(32);
  const auto shuffle = [&](const std::string& arguments) {
    return Run<uint32_t>("shfl.sync." + arguments + ", 0xffffffff;\n@!%q add.u32 %d, %d, 1000;", a);
  };
  const std::vector<uint32_t> down = shuffle("down.b32 %d|%q, %a, 4, 31"), up = shuffle("up.b32 %d|%q, %a, 4, 0");
  const std::vector<uint32_t> butterfly = shuffle("bfly.b32 %d|%q, %a, 3, 31"),
                              index = shuffle("idx.b32 %d|%q, %a, 5, 31");
  // Segments of 8 lanes.
  const std::vector<uint32_t> part = shuffle("down.b32 %d|%q, %a, 4, 0x1807");
  for (uint32_t k = 0; k < 32; ++k) {
    CHECK(down[k] == (k < 28 ? k + 4 : k + 1000));
    CHECK(up[k] == (k >= 4 ? k - 4 : k + 1000));
    CHECK(butterfly[k] == (k ^ 3));
    CHECK(index[k] == 5);
    CHECK(part[k] == (k % 8 < 4 ? k + 4 : k + 1000));
  }
}

TEST_CASE("A shuffle waits for the lanes of its mask") {
  // Lanes 16 to 31 take a longer way to the same shuffle.
  const std::string text =
      "setp.lt.u32 %q, %a, 16;\nmov.b32 %d, %a;\n@%q bra $join;\nadd.u32 %d, %d, 100;\n$join:\n"
      "shfl.sync.bfly.b32 %d, %d, 16, 31, 0xffffffff;";
  const std::vector<uint32_t> found = Run<uint32_t>(text, Iota(32));
  for (uint32_t k = 0; k < 32; ++k) CHECK(found[k] == (k < 16 ? k + 116 : k - 16));
}

TEST_CASE("Shuffles without their lanes are refused, or give garbage") {
  const std::string head = ".reg .pred %q;\n.reg .b32 %x;\nsetp.lt.u32 %q, %t, 16;\n";
  const std::string outsider = head + "shfl.sync.idx.b32 %x, %t, 0, 31, 0xffff;";
  CHECK(Contains(LaunchText(KernelText(0, outsider), 32, {}), "outside of the member mask"));
  const std::string two_places = head +
                                 "@%q bra $else;\nshfl.sync.idx.b32 %x, %t, 0, 31, 0xffffffff;\nbra $end;\n$else:\n"
                                 "shfl.sync.idx.b32 %x, %t, 0, 31, 0xffffffff;\n$end:\nmov.b32 %x, 1;";
  CHECK(Contains(LaunchText(KernelText(0, two_places), 32, {}), "shfl.sync"));
  const std::string from_absent_lane =
      "mov.b32 %d, 0;\nsetp.lt.u32 %q, %a, 16;\n@!%q bra $end;\nshfl.sync.idx.b32 %d, %a, 20, 31, 0xffff;\n$end:";
  CHECK(Run<uint32_t>(from_absent_lane, Iota(32))[0] != 20);
}

TEST_CASE("Votes and reductions of a warp") {
  const std::vector<uint32_t> a = Iota(32);
  const std::string head = "setp.lt.u32 %q, %a, 3;\n";
  CHECK(Run<uint32_t>(head + "vote.sync.ballot.b32 %d, %q, 0xffffffff;", a)[9] == 7);
  CHECK(Run<uint32_t>(head + "vote.sync.ballot.b32 %d, !%q, 0xffffffff;", a)[9] == ~7U);
  CHECK(Run<uint32_t>(head + "vote.sync.any.pred %r, %q, 0xffffffff;\nselp.b32 %d, 1, 0, %r;", a)[9] == 1);
  CHECK(Run<uint32_t>(head + "vote.sync.all.pred %r, %q, 0xffffffff;\nselp.b32 %d, 1, 0, %r;", a)[9] == 0);
  CHECK(Run<uint32_t>(head + "vote.sync.uni.pred %r, %q, 0xffffffff;\nselp.b32 %d, 1, 0, %r;", a)[9] == 0);
  CHECK(Run<uint32_t>("redux.sync.add.u32 %d, %a, 0xffffffff;", a)[9] == 31 * 16);
  CHECK(Run<int32_t>("neg.s32 %d, %a;\nredux.sync.min.s32 %d, %d, 0xffffffff;", a)[9] == -31);
  CHECK(Run<uint32_t>("redux.sync.or.b32 %d, %a, 0xffffffff;", a)[9] == 31);
}

TEST_CASE("Matrices from shared memory") {
  std::vector<uint32_t> plain(32), transposed(32);
  // Row r, column c of the matrix is 8 r + c.
  const std::string body =
      ".shared .align 16 .b8 s[128];\n.reg .b32 %x, %y;\n.reg .b16 %h;\n.reg .b64 %a;\nshl.b32 %x, %t, 2;\nshl.b32 %y, "
      "%t, 1;\n"
      "cvt.u16.u32 %h, %y;\nst.shared.b16 [%x], %h;\nadd.u16 %h, %h, 1;\nst.shared.b16 [%x+2], %h;\nbar.warp.sync "
      "0xffffffff;\n"
      "and.b32 %x, %t, 7;\nshl.b32 %x, %x, 4;\nldmatrix.sync.aligned.m8n8.x1.shared.b16 {%y}, [%x];\n"
      "mad.wide.u32 %a, %t, 4, %p0;\nst.global.b32 [%a], %y;\nldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%y}, "
      "[%x];\n"
      "mad.wide.u32 %a, %t, 4, %p1;\nst.global.b32 [%a], %y;";
  REQUIRE(LaunchText(KernelText(2, body), 32, {plain.data(), transposed.data()}) == "");
  for (uint32_t lane = 0; lane < 32; ++lane) {
    const uint32_t near = lane / 4, far = 2 * (lane % 4);
    CHECK(plain[lane] == (8 * near + far) + ((8 * near + far + 1) << 16));
    CHECK(transposed[lane] == (8 * far + near) + ((8 * (far + 1) + near) << 16));
  }
}

TEST_CASE("Calls of the device math library") {
  for (const std::string space : {"param", "param::func"}) {  // jax 0.10.2, jax 0.11.2
    const std::string text = "{\n.param .b32 param0;\n.param .b32 retval0;\nst." + space +
                             ".b32 [param0], %a;\ncall.uni (retval0), emulator_expf, (param0);\nld." + space +
                             ".b32 %d, [retval0];\n}";
    CHECK(RunOne<float>(text, 1.0f) == doctest::Approx(2.718281828));
  }
}

TEST_CASE("trap ends the launch") {
  const std::string error = LaunchText(KernelText(0, "trap;"), 1, {});
  CHECK(Contains(error, "kernel k, block (0,0,0), warp 0, lanes 0x00000001: trap"));
}

}  // namespace ptx::testing
