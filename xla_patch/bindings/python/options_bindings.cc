#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "xla_patch/bindings/python/bindings.h"
#include "xla_patch/options/given_options.h"
#include "xla_patch/options/table.h"
#include "xla_patch/options/values.h"

namespace xla_shmem {
namespace {

namespace nb = nanobind;

nb::str Str(std::string_view text) { return nb::str(text.data(), text.size()); }

nb::tuple Words(const Option& option) {
  nb::list words;
  for (const OptionWord& word : option.words) words.append(Str(word.word));
  return nb::tuple(words);
}

// Whether a word, or no text at all, stands for no value.
bool CanBeNone(const Option& option) {
  if (option.type == OptionType::kChoice || option.type == OptionType::kList) return false;
  const auto has_no_value = [](const OptionWord& word) { return !word.value.has_value(); };
  return option.default_text.empty() || std::any_of(option.words.begin(), option.words.end(), has_no_value);
}

std::string StringOf(const nb::bytes& bytes) { return {bytes.c_str(), bytes.size()}; }

nb::object ReadValue(const Option& option, const nb::bytes& text) {
  const OptionValue value = ValueOrThrow(ReadOption(option, StringOf(text)));
  if (const auto* number = std::get_if<int64_t>(&value)) return nb::int_(*number);
  if (const auto* seconds = std::get_if<double>(&value)) return nb::float_(*seconds);
  if (const auto* string = std::get_if<std::string>(&value)) return nb::bytes(string->data(), string->size());
  if (const auto* ops = std::get_if<std::vector<ConsideredOp>>(&value)) {
    nb::list list;
    for (const ConsideredOp& considered : *ops) list.append(nb::make_tuple(OpName(considered.op), considered.limit));
    return nb::tuple(list);
  }
  return nb::none();
}

nb::list TableRows() {
  nb::list rows;
  for (const Option& option : OptionTable()) rows.append(nb::cast(&option, nb::rv_policy::reference));
  return rows;
}

std::optional<std::pair<std::string, std::string>> IdleIn(const std::map<std::string, nb::bytes>& texts, bool cpu,
                                                          bool gpu) {
  Variables given;
  for (const auto& [name, text] : texts) given.emplace(name, StringOf(text));
  OptionReaders readers;
  readers.cpu = cpu;
  readers.gpu = gpu;
  const std::optional<IdleOption> idle = FindIdleOption(given, readers);
  if (!idle.has_value()) return std::nullopt;
  return std::pair(std::string(idle->option->name), IdleSentence(*idle));
}

auto Has(uint32_t trait) {
  return [trait](const Option& option) { return option.Has(trait); };
}

}  // namespace

void BindOptions(nb::module_& m) {
  nb::class_<Option>(m, "Option", "A row of the table of options (xla_patch/options/table.h).")
      .def_prop_ro("name", [](const Option& option) { return Str(option.name); })
      .def_prop_ro("env", &Option::Variable)
      .def_prop_ro("type", [](const Option& option) { return OptionTypeName(option.type); })
      .def_prop_ro("default", [](const Option& option) { return Str(option.default_text); })
      .def_prop_ro("example", [](const Option& option) { return Str(option.example); })
      .def_prop_ro("words", &Words)
      .def_prop_ro("can_be_none", &CanBeNone)
      .def_prop_ro("least", [](const Option& option) { return option.least; })
      .def_prop_ro("values", [](const Option& option) { return Str(option.values); })
      .def_prop_ro("text", [](const Option& option) { return Str(option.text); })
      .def_prop_ro("on_cpu", Has(option_trait::kOnCpu))
      .def_prop_ro("on_gpu", Has(option_trait::kOnGpu))
      .def_prop_ro("in_tools", Has(option_trait::kInTools))
      .def_prop_ro("in_patched_jaxlib", Has(option_trait::kPatchedJaxlib))
      .def_prop_ro("decides", Has(option_trait::kDecides))
      .def_prop_ro("changes_times", Has(option_trait::kChangesTimes))
      .def_prop_ro("equal_on_ranks", Has(option_trait::kEqualOnRanks))
      .def("read", &ReadValue, nb::arg("text"),
           "The value that a text stands for; text as bytes. ValueError says what the text must be.");
  m.def("options", &TableRows, "The table of options.");
  m.def(
      "check_names",
      [](const std::vector<std::string>& names) {
        if (const Status status = CheckNames(names); !status.ok()) throw nb::value_error(status.message().c_str());
      },
      nb::arg("names"),
      "ValueError, a sentence, for the first of the variables' names that begins with XLA_SHMEM_ and is no option.");
  m.def(
      "no_such_option", [](const std::string& variable) { return NoSuchOption(variable); }, nb::arg("variable"),
      "The sentence about a variable that is no option, with the option that it may have meant.");
  m.def("idle_option", &IdleIn, nb::arg("texts"), nb::kw_only(), nb::arg("cpu"), nb::arg("gpu"),
        "(name, sentence) of the first option without an effect in a process that runs collectives on CPUs, GPUs or "
        "both; None if each may have one. texts: what the user wrote, as bytes by the option's name.");
  m.def(
      "read_size", [](const nb::bytes& text) { return ValueOrThrow(ReadSize(StringOf(text))); }, nb::arg("text"),
      "Bytes of a size such as 16MiB, 4K or 65536. ValueError says what the text must be.");
}

}  // namespace xla_shmem
