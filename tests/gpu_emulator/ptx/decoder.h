// Statements of a kernel as instructions that can run.
//
// Each family of instructions has a table of its opcodes (`Opcode`). A row's function takes the modifiers and operands
// that it understands from a `Decoding`; what is left over refuses the instruction, so that none is ignored.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <vector>

#include "ptx/kernel.h"
#include "ptx/syntax.h"
#include "ptx/types.h"
#include "ptx/warp.h"

namespace ptx {

class Decoder;

// One instruction while it is decoded.
class Decoding {
 public:
  Decoding(Decoder* decoder, const Statement& statement, Instruction* instruction);

  Instruction& instruction() { return *instruction_; }
  const std::string& opcode() const { return statement_.opcode; }
  size_t operands() const { return statement_.operands.size(); }
  const Operand& operand(size_t index);  // counts as taken

  // True if the instruction has this modifier, which is then taken.
  bool Take(const char* modifier);
  // The index of the one that it has, or -1.
  int TakeOneOf(std::initializer_list<const char*> modifiers);
  // The last modifier as a type; kNone if it is none.
  Type TakeType();
  // "rn", "rz", "rm" and "rp" as a rounding of fenv.h; -1 if it has none.
  int TakeRounding();

  // Registers of operands. The size must be that of the type; a predicate has size 0.
  uint32_t Destination(size_t index, Type type);
  uint32_t Source(size_t index, Type type);
  // The register may be wider than the type.
  uint32_t WideDestination(size_t index, Type type, uint8_t* bytes);
  uint32_t WideSource(size_t index, Type type, uint8_t* bytes);
  // Of "d|p": sets d2.
  void SecondPredicate(size_t index);
  // A predicate that may be negated: sets flip.
  uint32_t NegatablePredicate(size_t index);
  // The elements of {a, b, ...}.
  std::vector<uint32_t> VectorOf(size_t index, Type type, bool destination);
  // An operand that is a number; refuses any other.
  int64_t Immediate(size_t index);
  bool IsVector(size_t index) const { return statement_.operands[index].kind == Operand::Kind::kVector; }
  // An address in `space`: sets a, number and wide_address.
  void Address(size_t index, Space space);
  // The register behind "[name]" if the name is a parameter of a call, with its size; false otherwise.
  bool CallParameter(const std::string& name, uint32_t* reg, size_t* bytes);
  void BranchTarget(size_t index);
  void BranchTable(size_t index);

  // The first reason is kept.
  void Refuse(const std::string& reason);
  const std::string& refusal() const { return refusal_; }
  // Refuses if something was not taken.
  void CheckAllTaken();

 private:
  uint32_t Register(const std::string& name, Type type, bool destination, uint8_t* wide_bytes);
  uint32_t SourceText(const std::string& text, int64_t offset, Type type, uint8_t* wide_bytes);

  Decoder* const decoder_;
  const Statement& statement_;
  Instruction* const instruction_;
  std::vector<std::string> modifiers_;
  std::vector<bool> taken_;
  std::string refusal_;
};

// Decodes an instruction: its handler, or null if the types do not fit.
using DecodeFunction = Handler (*)(Decoding&);
struct Opcode {
  const char* name;
  DecodeFunction decode;
};
using Opcodes = std::vector<Opcode>;

const Opcodes& IntegerOpcodes();
const Opcodes& FloatOpcodes();
const Opcodes& LogicOpcodes();
const Opcodes& ComparisonOpcodes();
const Opcodes& ConversionOpcodes();
const Opcodes& MoveOpcodes();
const Opcodes& MemoryOpcodes();
const Opcodes& AtomicOpcodes();
const Opcodes& MultimemOpcodes();
const Opcodes& ControlOpcodes();
const Opcodes& WarpOpcodes();
const Opcodes& CallOpcodes();
// Of opcodes that several families share: "add" of integers and of floats, by the type.
const Opcodes& ArithmeticOpcodes();

class Decoder {
 public:
  Decoder(const Module& module, Kernel* kernel);
  // Decodes kernel->syntax. What is not understood is in kernel->refusals.
  void Run();

 private:
  friend class Decoding;

  struct RegisterInfo {
    Type type = Type::kNone;
    uint32_t reg = 0;     // 0: no place yet
    size_t numbered = 0;  // not 0: a family name<N>, whose members get a place with their first use
  };
  struct Scope {
    std::map<std::string, RegisterInfo> registers;
    std::map<std::string, RegisterInfo> call_parameters;
  };

  void Declare(const Statement& statement, const Declaration& declaration);
  void DeclareMemory(const Declaration& declaration, size_t* used, std::map<std::string, size_t>* offsets);
  void LayOutSharedMemory();
  void DecodeInstruction(const Statement& statement);
  void Refuse(const Statement& statement, const std::string& reason);
  void ResolveBranches();

  // Null if it was not declared.
  const RegisterInfo* FindRegister(const std::string& name);
  uint32_t Allocate(Type type);
  uint32_t ConstantRegister(size_t bytes, uint64_t value);
  bool AddressOf(const std::string& name, Space* space, uint64_t* address, std::string* refusal);

  const Module& module_;
  Kernel* const kernel_;
  std::vector<Scope> scopes_;
  std::map<std::string, size_t> shared_, local_, parameters_;
  std::map<std::string, int32_t> labels_;
  std::map<std::string, std::vector<std::string>> tables_;
  struct Branch {
    size_t instruction;
    std::string label;
    bool table;
  };
  std::vector<Branch> branches_;
};

}  // namespace ptx
