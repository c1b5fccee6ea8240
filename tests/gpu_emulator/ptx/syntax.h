// PTX text as statements and declarations, without their meaning.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ptx {

struct Operand {
  enum class Kind {
    kScalar,   // register, number or name
    kVector,   // {a, b}
    kAddress,  // [base + offset]
    kGroup,    // (a, b), of a call
  };
  Kind kind = Kind::kScalar;
  std::vector<std::string> parts;  // one for a scalar and for an address
  std::string second;              // of "p|q"
  bool negated = false;            // "!p"
  int64_t offset = 0;              // of an address, or of "name+8"
};

// Of a register, a variable or a parameter.
struct Declaration {
  std::string space;  // "reg", "shared", "global", "param", ...
  std::string type;   // "b32"
  std::string name;
  size_t alignment = 0;  // 0: that of the type
  size_t elements = 1;   // 0: "name[]"
  size_t numbered = 0;   // of registers "name<10>"
  bool array = false;
  bool external = false;
  std::vector<std::string> values;  // initial ones
};

struct Statement {
  enum class Kind { kInstruction, kLabel, kDeclaration, kOpenScope, kCloseScope, kBranchTargets };
  Kind kind = Kind::kInstruction;
  int line = 0;
  std::string text;

  // kInstruction. "add.rn.f32" has the opcode "add" and the modifiers "rn" and "f32".
  std::string guard;  // empty if there is none
  bool guard_negated = false;
  std::string opcode;
  std::vector<std::string> modifiers;
  std::vector<Operand> operands;

  std::string label;                      // kLabel, kBranchTargets
  std::vector<std::string> targets;       // kBranchTargets
  std::vector<Declaration> declarations;  // kDeclaration
};

struct FunctionSyntax {
  std::string name;
  bool entry = false;
  std::vector<Declaration> parameters;
  std::vector<size_t> required_block;  // .reqntid
  std::vector<size_t> maximal_block;   // .maxntid
  std::vector<std::string> unknown_directives;
  std::vector<Statement> body;
};

struct ModuleSyntax {
  std::vector<FunctionSyntax> functions;  // with a body
  std::vector<Declaration> variables;
};

// False with `*error` set if the text is not PTX.
bool ParseSyntax(const std::string& text, ModuleSyntax* module, std::string* error);

}  // namespace ptx
