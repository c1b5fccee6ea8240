#include "ptx/syntax.h"

#include <algorithm>
#include <cstdlib>
#include <set>
#include <utility>

#include "ptx/tokens.h"

namespace ptx {
namespace {

bool IsType(const std::string& word) {
  static const std::set<std::string> types = {".b8",    ".b16",  ".b32",    ".b64", ".b128", ".u8",  ".u16",
                                              ".u32",   ".u64",  ".s8",     ".s16", ".s32",  ".s64", ".f16",
                                              ".f16x2", ".bf16", ".bf16x2", ".f32", ".f64",  ".pred"};
  return types.count(word) != 0;
}

bool IsVariableSpace(const std::string& word) {
  return word == ".reg" || word == ".shared" || word == ".local" || word == ".global" || word == ".const" ||
         word == ".param";
}

std::vector<std::string> SplitAtDots(const std::string& word) {
  std::vector<std::string> parts;
  size_t from = 0;
  for (size_t at = 0; at <= word.size(); ++at) {
    if (at < word.size() && word[at] != '.') continue;
    parts.push_back(word.substr(from, at - from));
    from = at + 1;
  }
  return parts;
}

class Parser {
 public:
  explicit Parser(const std::string& source) : source_(source), tokens_(Tokens(source)) {}

  bool Module(ModuleSyntax* module, std::string* error) {
    while (error_.empty() && !AtEnd()) ModuleItem(module);
    *error = error_;
    return error_.empty();
  }

 private:
  bool AtEnd() const { return at_ >= tokens_.size(); }
  const std::string& Peek(size_t ahead = 0) const {
    static const std::string none;
    return at_ + ahead < tokens_.size() ? tokens_[at_ + ahead].text : none;
  }
  int Line() const { return tokens_.empty() ? 0 : tokens_[std::min(at_, tokens_.size() - 1)].line; }
  std::string Next() {
    if (!AtEnd()) return tokens_[at_++].text;
    Fail("the text ends early");
    return "";
  }
  bool Accept(const char* text) {
    if (Peek() != text) return false;
    ++at_;
    return true;
  }
  void Expect(const char* text) {
    if (!Accept(text)) Fail(std::string("expected '") + text + "', found '" + Peek() + "'");
  }
  void Fail(const std::string& what) {
    if (error_.empty()) error_ = "line " + std::to_string(Line()) + ": " + what;
    at_ = tokens_.size();
  }
  void SkipLine() {
    const int line = Line();
    while (!AtEnd() && Line() == line) ++at_;
  }
  void SkipBraces() {
    int depth = 0;
    do {
      const std::string token = Next();
      depth += (token == "{") - (token == "}");
    } while (depth > 0 && !AtEnd());
  }
  int64_t Integer() {
    const bool negative = Accept("-");
    const std::string word = Next();
    char* end = nullptr;
    const uint64_t value = strtoull(word.c_str(), &end, 0);
    if (word.empty() || (*end != '\0' && std::string(end) != "U")) Fail("expected a number, found '" + word + "'");
    return static_cast<int64_t>(negative ? 0 - value : value);
  }
  std::string TextFrom(size_t first) const {
    return first >= at_ ? "" : source_.substr(tokens_[first].begin, tokens_[at_ - 1].end - tokens_[first].begin);
  }

  // "+8" or "-8"; 0 if there is none. LLVM writes "+-8" as well.
  int64_t Offset() {
    if (Accept("+")) return Integer();
    return Peek() == "-" ? Integer() : 0;
  }

  void ModuleItem(ModuleSyntax* module) {
    const std::string& word = Peek();
    if (word == ".version" || word == ".target" || word == ".address_size" || word == ".file" || word == ".loc") {
      return SkipLine();
    }
    if (word == ".section") {
      ++at_;
      Next();
      return SkipBraces();
    }
    if (Accept(";")) return;
    bool external = false;
    while (Peek() == ".visible" || Peek() == ".extern" || Peek() == ".weak" || Peek() == ".common") {
      external |= Next() == ".extern";
    }
    if (Peek() == ".entry" || Peek() == ".func") return Function(module, external);
    if (!IsVariableSpace(Peek())) return Fail("unknown directive '" + Peek() + "'");
    for (Declaration& declared : Variables()) {
      declared.external = external;
      module->variables.push_back(std::move(declared));
    }
  }

  void Function(ModuleSyntax* module, bool external) {
    FunctionSyntax function;
    function.entry = Next() == ".entry";
    if (!function.entry && Accept("(")) Parameters();  // what it returns
    function.name = Next();
    if (Accept("(")) function.parameters = Parameters();
    if (external) {
      Accept(";");  // which a text of XLA's lacks
      return;
    }
    while (!AtEnd() && Peek() != "{" && Peek() != ";") FunctionDirective(&function);
    if (Accept(";")) return;  // a declaration
    Expect("{");
    int depth = 1;
    while (!AtEnd()) {
      Statement statement;
      if (!BodyItem(&statement)) continue;
      depth += (statement.kind == Statement::Kind::kOpenScope) - (statement.kind == Statement::Kind::kCloseScope);
      if (depth == 0) {
        module->functions.push_back(std::move(function));
        return;
      }
      function.body.push_back(std::move(statement));
    }
    Fail("function " + function.name + " has no end");
  }

  std::vector<size_t> Sizes() {
    std::vector<size_t> sizes;
    do {
      sizes.push_back(static_cast<size_t>(Integer()));
    } while (Accept(","));
    return sizes;
  }

  void FunctionDirective(FunctionSyntax* function) {
    const std::string word = Next();
    if (word == ".reqntid") {
      function->required_block = Sizes();
    } else if (word == ".maxntid") {
      function->maximal_block = Sizes();
    } else if (word == ".minnctapersm" || word == ".maxnreg") {
      Sizes();  // for the register allocator
    } else if (word != ".noreturn") {
      function->unknown_directives.push_back(word);
      while (!AtEnd() && Peek() != "{" && Peek() != ";" && Peek()[0] != '.') ++at_;
    }
  }

  std::vector<Declaration> Parameters() {
    std::vector<Declaration> parameters;
    while (!AtEnd() && !Accept(")")) {
      parameters.push_back(OneVariable(Next().substr(1)));
      if (Peek() != ")") Expect(",");
    }
    return parameters;
  }

  // "space attributes type name, name;"
  std::vector<Declaration> Variables() {
    std::vector<Declaration> variables = {OneVariable(Next().substr(1))};
    while (Accept(",")) {
      Declaration another = variables.front();
      another.values.clear();
      NameAndValues(&another);
      variables.push_back(std::move(another));
    }
    Expect(";");
    return variables;
  }

  Declaration OneVariable(const std::string& space) {
    Declaration declared;
    declared.space = space;
    bool pointer = false;
    while (!AtEnd() && Peek()[0] == '.') {
      const std::string word = Next();
      if (IsType(word)) {
        declared.type = word.substr(1);
      } else if (word == ".align") {
        const auto alignment = static_cast<size_t>(Integer());
        if (!pointer) declared.alignment = alignment;  // otherwise that of what the pointer points to
      } else if (word == ".ptr") {
        pointer = true;
      } else if (!pointer) {
        Fail("unknown attribute '" + word + "' of a variable");
      }
    }
    NameAndValues(&declared);
    return declared;
  }

  void NameAndValues(Declaration* declared) {
    declared->name = Next();
    declared->numbered = 0;
    if (Accept("<")) {
      declared->numbered = static_cast<size_t>(Integer());
      Expect(">");
    }
    declared->array = false;
    declared->elements = 1;
    while (Accept("[")) {
      declared->array = true;
      declared->elements *= Peek() == "]" ? 0 : static_cast<size_t>(Integer());
      Expect("]");
    }
    if (!Accept("=")) return;
    int depth = 0;
    do {
      const std::string token = Next();
      depth += (token == "{") - (token == "}");
      if (token == "-") {
        declared->values.push_back("-" + Next());
      } else if (token != "{" && token != "}" && token != ",") {
        declared->values.push_back(token);
      }
    } while (depth > 0 && !AtEnd());
  }

  // False for what has no meaning when it runs.
  bool BodyItem(Statement* statement) {
    const size_t first = at_;
    statement->line = Line();
    const std::string word = Peek();
    if (Accept(";")) return false;
    if (Accept("{")) {
      statement->kind = Statement::Kind::kOpenScope;
    } else if (Accept("}")) {
      statement->kind = Statement::Kind::kCloseScope;
    } else if (word == ".loc" || word == ".file") {
      SkipLine();
      return false;
    } else if (word == ".pragma") {
      at_ += 2;
      Expect(";");
      return false;
    } else if (Peek(1) == ":") {
      at_ += 2;
      statement->label = word;
      statement->kind = Statement::Kind::kLabel;
      if (Accept(".branchtargets")) BranchTargets(statement);
    } else if (IsVariableSpace(word)) {
      statement->kind = Statement::Kind::kDeclaration;
      statement->declarations = Variables();
    } else if (word == "@" || word[0] != '.') {
      Instruction(statement);
    } else {
      Fail("unknown directive '" + word + "' in a function");
    }
    statement->text = TextFrom(first);
    if (statement->kind == Statement::Kind::kInstruction) Expect(";");
    return true;
  }

  void BranchTargets(Statement* statement) {
    statement->kind = Statement::Kind::kBranchTargets;
    do {
      statement->targets.push_back(Next());
    } while (Accept(","));
    Expect(";");
  }

  void Instruction(Statement* statement) {
    if (Accept("@")) {
      statement->guard_negated = Accept("!");
      statement->guard = Next();
    }
    const std::string word = Next();
    std::vector<std::string> parts = SplitAtDots(word);
    statement->opcode = parts[0];
    statement->modifiers.assign(parts.begin() + 1, parts.end());
    while (!AtEnd() && Peek() != ";") {
      statement->operands.push_back(OneOperand());
      if (Peek() != ";") Expect(",");
    }
  }

  Operand OneOperand() {
    Operand operand;
    if (Accept("{")) {
      operand.kind = Operand::Kind::kVector;
      operand.parts = List("}");
    } else if (Accept("(")) {
      operand.kind = Operand::Kind::kGroup;
      operand.parts = List(")");
    } else if (Accept("[")) {
      operand.kind = Operand::Kind::kAddress;
      operand.parts = {Next()};
      operand.offset = Offset();
      if (Peek() != "]") operand.kind = Operand::Kind::kGroup;  // coordinates and the like, which nothing here takes
      while (!AtEnd() && !Accept("]")) ++at_;
    } else {
      operand.negated = Accept("!");
      operand.parts = {Scalar()};
      if (Accept("|")) operand.second = Next();
      if (Peek() == "+") operand.offset = Offset();
    }
    return operand;
  }

  std::string Scalar() { return Accept("-") ? "-" + Next() : Next(); }

  std::vector<std::string> List(const char* end) {
    std::vector<std::string> parts;
    while (!AtEnd() && !Accept(end)) {
      parts.push_back(Scalar());
      if (Peek() != end) Expect(",");
    }
    return parts;
  }

  const std::string& source_;
  std::vector<Token> tokens_;
  size_t at_ = 0;
  std::string error_;
};

}  // namespace

bool ParseSyntax(const std::string& text, ModuleSyntax* module, std::string* error) {
  return Parser(text).Module(module, error);
}

}  // namespace ptx
