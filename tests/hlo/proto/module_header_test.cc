#include "xla_patch/hlo/proto/module_header.h"

#include <doctest/doctest.h>

#include <string>

#include "tests/hlo/hlo_builder.h"

namespace xla_shmem::hlo {
namespace {

using test::Message;

Message Instruction(std::string_view opcode) { return Message().Bytes(1, "i").Bytes(2, opcode); }

Message Module(const Message& instruction) {
  return Message().Bytes(1, "jit_f").Sub(3, Message().Bytes(1, "main").Sub(2, instruction)).Sub(4, Message());
}

ModuleHeader Read(std::string_view module) {
  Result<ModuleHeader> header = ReadModuleHeader(module);
  REQUIRE_MESSAGE(header.ok(), header.message());
  return *std::move(header);
}

TEST_CASE("a module is found as it is, in an HloProto, and in an HloSnapshot, but no deeper") {
  const Message module = Module(Instruction("add"));
  const Message proto = Message().Sub(1, module);
  const Message snapshot = Message().Sub(1, proto);
  for (const Message& message : {module, proto, snapshot}) {
    CHECK(*UnwrapModule(message.str()) == module.str());
  }
  CHECK(UnwrapModule(Message().Sub(1, snapshot).str()).message() == "is not an HLO module");
}

TEST_CASE("bytes that are not a module are refused with the reason") {
  CHECK(UnwrapModule("").message() == "is not an HLO module");
  CHECK(UnwrapModule(Message().Int(1, 5).Int(4, 5).str()).message() == "is not an HLO module");
  const std::string module = Module(Instruction("add")).str();
  CHECK(UnwrapModule(module.substr(0, module.size() - 1)).message() ==
        "is not an HLO proto, or is truncated: truncated varint at byte " + std::to_string(module.size() - 1));
  CHECK(ReadModuleHeader("\x0a\x09jit").message() ==
        "is not an HLO proto, or is truncated: field longer than its message at byte 2");
}

TEST_CASE("start/done pairs and a collective's backend config mean GPU") {
  for (const char* opcode : {"all-reduce-start", "collective-permute-start", "all-gather-start", "async-start"}) {
    CHECK(Read(Module(Instruction(opcode)).str()).is_gpu_form);
  }
  CHECK_FALSE(Read(Module(Instruction("all-reduce")).str()).is_gpu_form);
  CHECK_FALSE(Read(Module(Message().Bytes(1, "all-reduce-start").Bytes(2, "add")).str()).is_gpu_form);
  const std::string config = R"({"collective_backend_config":{}})";
  CHECK(Read(Module(Instruction("all-reduce").Bytes(43, config)).str()).is_gpu_form);
  CHECK(Read(Module(Instruction("all-reduce")).Sub(22, Message().Bytes(1, config)).str()).is_gpu_form);
  CHECK_FALSE(Read(Module(Instruction("all-reduce").Bytes(43, "{}")).str()).is_gpu_form);
}

TEST_CASE("a module with shardings and without a schedule awaits the partitioner") {
  const auto awaits = [](const Message& instruction) { return Read(Module(instruction).str()).awaits_partitioning; };
  const auto call = [](const char* target) { return Instruction("custom-call").Bytes(28, target); };
  const Message tiled = Message().Int(1, 3);
  for (const char* target :
       {"Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "xla.sdy.FuncResultSharding"}) {
    CHECK(awaits(call(target)));
  }
  CHECK_FALSE(awaits(call("xla_ffi_python_cpu_callback")));
  CHECK(awaits(Instruction("get-tuple-element").Sub(40, tiled)));
  CHECK(awaits(Instruction("add").Sub(40, Message().Bytes(10, "a mesh"))));
  CHECK_FALSE(awaits(Instruction("parameter").Sub(40, tiled)));
  CHECK_FALSE(awaits(Instruction("add").Sub(40, Message().Int(1, 1))));  // on one device
  CHECK_FALSE(awaits(Instruction("add").Bytes(40, "")));                 // replicated
  CHECK_FALSE(Read(Module(call("Sharding")).Bytes(7, "").str()).awaits_partitioning);
}

TEST_CASE("damage inside a computation leaves the header readable") {
  const std::string module = Message().Bytes(1, "f").Bytes(3, "\x12\x7f").str();
  const ModuleHeader header = Read(module);
  CHECK(header.name == "f");
  CHECK_FALSE(header.is_gpu_form);
}

TEST_CASE("the default assignment numbers devices as XLA does") {
  const Result<std::string> module = WithDefaultAssignment("", 2, 3);
  REQUIRE(module.ok());
  const DeviceAssignment assignment = Read(*module).assignment;
  CHECK(assignment.replica_count() == 2);
  CHECK(assignment.partition_count() == 3);
  CHECK(assignment.devices() == std::vector<int64_t>{0, 1, 2, 3, 4, 5});
  CHECK(Read("").assignment.is_unknown());
}

TEST_CASE("more devices than are supported, or none, are refused") {
  CHECK(WithDefaultAssignment("", int64_t{1} << 40, int64_t{1} << 40).message() ==
        "is for 1099511627776 x 1099511627776 devices, at most 1048576 are supported");
  CHECK_FALSE(WithDefaultAssignment("", 0, 4).ok());
  CHECK(WithDefaultAssignment("", 1 << 10, 1 << 10).ok());
}

TEST_CASE("a device assignment that contradicts itself is an error") {
  const Message assignment = Message().Int(1, 1).Int(2, 2).Sub(3, Message().Ints(1, {0}));
  CHECK_FALSE(ReadModuleHeader(Message().Sub(15, assignment).str()).ok());
}

}  // namespace
}  // namespace xla_shmem::hlo
