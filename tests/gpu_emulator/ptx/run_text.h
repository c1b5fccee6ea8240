// Runs PTX in tests: a whole text, or a few instructions for each element of vectors.
#pragma once

#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "ptx/ptx.h"

namespace ptx::testing {

// "" or the error of parsing or of launching the kernel "k" with one block.
inline std::string LaunchText(const std::string& text, unsigned threads, const std::vector<const void*>& pointers,
                              unsigned blocks = 1, unsigned dynamic_shared = 0) {
  std::string error;
  const auto module = Parse(text.c_str(), &error);
  if (module == nullptr) return "no PTX: " + error;
  const Kernel* kernel = FindKernel(*module, "k");
  if (kernel == nullptr) return "no kernel k";
  std::vector<void*> parameters;
  parameters.reserve(pointers.size());
  for (const void* const& pointer : pointers)
    parameters.push_back(const_cast<void**>(const_cast<const void**>(&pointer)));
  return Launch(*kernel, {blocks, 1, 1}, {threads, 1, 1}, dynamic_shared, PackArguments(*kernel, parameters.data()));
}

// A kernel "k" with pointers as parameters p0, p1, ..., which are in %p0, %p1, ...; %t is the thread's number in the
// grid.
inline std::string KernelText(int pointers, const std::string& body, const std::string& declarations = "") {
  std::string text = ".version 8.0\n.target sm_80\n.address_size 64\n" + declarations + ".visible .entry k(";
  for (int k = 0; k < pointers; ++k) text += (k == 0 ? "" : ",") + std::string(" .param .u64 p") + std::to_string(k);
  text += ")\n{\n.reg .b64 %p<" + std::to_string(pointers + 1) + ">;\n.reg .b32 %t, %t1, %t2;\n";
  text += "mov.u32 %t1, %ctaid.x;\nmov.u32 %t2, %ntid.x;\nmov.u32 %t, %tid.x;\nmad.lo.s32 %t, %t1, %t2, %t;\n";
  for (int k = 0; k < pointers; ++k) {
    const std::string number = std::to_string(k);
    text +=
        "ld.param.u64 %p" + number + ", [p" + number + "];\ncvta.to.global.u64 %p" + number + ", %p" + number + ";\n";
  }
  return text + body + "\nret;\n}\n";
}

template <typename T>
std::string Bits() {
  return "b" + std::to_string(8 * sizeof(T));
}

// Runs `instructions` once for each element. They find the inputs in %a, %b and %c and leave the result in %d, in
// registers as wide as the elements. %q and %r are predicates.
template <typename To, typename... From>
std::vector<To> Run(const std::string& instructions, const std::vector<From>&... inputs) {
  const std::vector<size_t> sizes = {inputs.size()...};
  std::vector<To> results(sizes[0]);
  const std::vector<std::string> types = {Bits<From>()...};
  const char* const names[] = {"%a", "%b", "%c"};
  std::string body = ".reg .pred %q, %r;\n.reg .b64 %address, %index;\ncvt.u64.u32 %index, %t;\n";
  body += ".reg ." + Bits<To>() + " %d;\n";
  const auto place = [](const std::string& pointer, size_t bytes) {
    return "mad.lo.u64 %address, %index, " + std::to_string(bytes) + ", " + pointer + ";\n";
  };
  const size_t bytes[] = {sizeof(From)...};
  for (size_t k = 0; k < types.size(); ++k) {
    body += ".reg ." + types[k] + " " + names[k] + ";\n" + place("%p" + std::to_string(k), bytes[k]) + "ld.global." +
            types[k] + " " + names[k] + ", [%address];\n";
  }
  body += instructions + "\n" + place("%p" + std::to_string(types.size()), sizeof(To)) + "st.global." + Bits<To>() +
          " [%address], %d;";
  const std::string text = KernelText(static_cast<int>(types.size()) + 1, body);
  REQUIRE(LaunchText(text, static_cast<unsigned>(results.size()), {inputs.data()..., results.data()}) == "");
  return results;
}

// Of one element.
template <typename To, typename... From>
To RunOne(const std::string& instructions, From... inputs) {
  return Run<To>(instructions, std::vector<From>{inputs}...)[0];
}

inline uint32_t BitsOf(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  return bits;
}
inline float FloatOf(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof(value));
  return value;
}

}  // namespace ptx::testing
