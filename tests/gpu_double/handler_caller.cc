// Calls XLA FFI handlers the way XLA does, from Python: a call frame with buffers and attributes, and the few calls of
// XLA's API that the handlers make.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "xla/ffi/api/c_api.h"

namespace nb = nanobind;

struct XLA_FFI_Error {
  std::string message;
};

struct XLA_FFI_ExecutionContext {
  void* stream;  // null outside execution
  int64_t run_id;
};

namespace {

// Address, type (its name in NumPy) and shape of an array.
using Array = std::tuple<uintptr_t, std::string, std::vector<int64_t>>;

XLA_FFI_Error* CreateError(XLA_FFI_Error_Create_Args* args) { return new XLA_FFI_Error{args->message}; }

void GetMessage(XLA_FFI_Error_GetMessage_Args* args) { args->message = args->error->message.c_str(); }

void DestroyError(XLA_FFI_Error_Destroy_Args* args) { delete args->error; }

XLA_FFI_Error* GetStream(XLA_FFI_Stream_Get_Args* args) {
  if (args->ctx->stream == nullptr) return new XLA_FFI_Error{"there is no stream at this stage"};
  args->stream = args->ctx->stream;
  return nullptr;
}

XLA_FFI_Error* GetRunId(XLA_FFI_RunId_Get_Args* args) {
  args->run_id = args->ctx->run_id;
  return nullptr;
}

// Members that our handlers do not use are null here.
const XLA_FFI_Api& Api() {
  static const XLA_FFI_Api api = [] {
    XLA_FFI_Api table{};
    table.struct_size = XLA_FFI_Api_STRUCT_SIZE;
    table.api_version = {XLA_FFI_Api_Version_STRUCT_SIZE, nullptr, XLA_FFI_API_MAJOR, XLA_FFI_API_MINOR};
    table.XLA_FFI_Error_Create = CreateError;
    table.XLA_FFI_Error_GetMessage = GetMessage;
    table.XLA_FFI_Error_Destroy = DestroyError;
    table.XLA_FFI_Stream_Get = GetStream;
    table.XLA_FFI_RunId_Get = GetRunId;
    return table;
  }();
  return api;
}

XLA_FFI_DataType DataType(const std::string& name) {
  static const std::pair<const char*, XLA_FFI_DataType> types[] = {
      {"float32", XLA_FFI_DataType_F32}, {"float64", XLA_FFI_DataType_F64},   {"float16", XLA_FFI_DataType_F16},
      {"int8", XLA_FFI_DataType_S8},     {"bfloat16", XLA_FFI_DataType_BF16}, {"int32", XLA_FFI_DataType_S32},
      {"int64", XLA_FFI_DataType_S64},   {"uint8", XLA_FFI_DataType_U8},      {"bool", XLA_FFI_DataType_PRED}};
  for (const auto& [known, type] : types) {
    if (name == known) return type;
  }
  throw nb::value_error(("no FFI type for " + name).c_str());
}

class Buffers {
 public:
  explicit Buffers(std::vector<Array> arrays) : arrays_(std::move(arrays)) {
    for (auto& [address, type, shape] : arrays_) {
      buffers_.push_back({XLA_FFI_Buffer_STRUCT_SIZE, nullptr, DataType(type), reinterpret_cast<void*>(address),
                          static_cast<int64_t>(shape.size()), shape.data()});
      pointers_.push_back(&buffers_.back());
    }
    argument_types_.assign(arrays_.size(), XLA_FFI_ArgType_BUFFER);
    result_types_.assign(arrays_.size(), XLA_FFI_RetType_BUFFER);
  }

  XLA_FFI_Args Arguments() {
    return {XLA_FFI_Args_STRUCT_SIZE, nullptr, Size(), argument_types_.data(), pointers_.data()};
  }
  XLA_FFI_Rets Results() { return {XLA_FFI_Rets_STRUCT_SIZE, nullptr, Size(), result_types_.data(), pointers_.data()}; }

 private:
  int64_t Size() const { return static_cast<int64_t>(arrays_.size()); }

  std::vector<Array> arrays_;
  std::deque<XLA_FFI_Buffer> buffers_;
  std::vector<void*> pointers_;
  std::vector<XLA_FFI_ArgType> argument_types_;
  std::vector<XLA_FFI_RetType> result_types_;
};

// A dictionary as XLA decodes it from the text of a backend config: integers are int64, sorted by name.
class Attributes {
 public:
  explicit Attributes(const nb::dict& dictionary) {
    const nb::object sorted = nb::module_::import_("builtins").attr("sorted")(dictionary);
    for (const nb::handle name : sorted) {
      names_.push_back(nb::cast<std::string>(name));
      Add(dictionary[name]);
    }
    for (const std::string& name : names_) {
      spans_.push_back({name.data(), name.size()});
      span_pointers_.push_back(&spans_.back());
    }
  }

  XLA_FFI_Attrs Get() {
    return {XLA_FFI_Attrs_STRUCT_SIZE, nullptr,       static_cast<int64_t>(types_.size()), types_.data(),
            span_pointers_.data(),     values_.data()};
  }

 private:
  void Add(nb::handle value) {
    if (nb::isinstance<nb::str>(value)) {
      const std::string& text = strings_.emplace_back(nb::cast<std::string>(value));
      values_.push_back(&spans_.emplace_back(XLA_FFI_ByteSpan{text.data(), text.size()}));
      types_.push_back(XLA_FFI_AttrType_STRING);
    } else if (nb::isinstance<nb::int_>(value)) {
      int64_t& number = numbers_.emplace_back(nb::cast<int64_t>(value));
      values_.push_back(&scalars_.emplace_back(XLA_FFI_Scalar{XLA_FFI_DataType_S64, &number}));
      types_.push_back(XLA_FFI_AttrType_SCALAR);
    } else {
      std::vector<int64_t>& elements = vectors_.emplace_back(nb::cast<std::vector<int64_t>>(value));
      values_.push_back(&arrays_.emplace_back(XLA_FFI_Array{XLA_FFI_DataType_S64, elements.size(), elements.data()}));
      types_.push_back(XLA_FFI_AttrType_ARRAY);
    }
  }

  // Deques: what points at their elements stays right while they grow.
  std::deque<std::string> names_, strings_;
  std::deque<XLA_FFI_ByteSpan> spans_;
  std::deque<int64_t> numbers_;
  std::deque<std::vector<int64_t>> vectors_;
  std::deque<XLA_FFI_Scalar> scalars_;
  std::deque<XLA_FFI_Array> arrays_;
  std::vector<XLA_FFI_ByteSpan*> span_pointers_;
  std::vector<void*> values_;
  std::vector<XLA_FFI_AttrType> types_;
};

XLA_FFI_Handler* HandlerOf(const nb::capsule& capsule) { return reinterpret_cast<XLA_FFI_Handler*>(capsule.data()); }

void Call(XLA_FFI_Handler* handler, XLA_FFI_ExecutionStage stage, const nb::dict& attributes,
          const std::vector<Array>& operands, const std::vector<Array>& results, XLA_FFI_ExecutionContext context) {
  Buffers arguments(operands), returned(results);
  Attributes decoded(attributes);
  XLA_FFI_CallFrame frame{XLA_FFI_CallFrame_STRUCT_SIZE,
                          nullptr,
                          &Api(),
                          &context,
                          stage,
                          arguments.Arguments(),
                          returned.Results(),
                          decoded.Get(),
                          nullptr};
  std::unique_ptr<XLA_FFI_Error> error;
  {
    nb::gil_scoped_release release;
    error.reset(handler(&frame));
  }
  if (frame.future != nullptr) throw std::runtime_error("the handler left a future, which XLA:GPU waits for");
  if (error != nullptr) throw std::runtime_error(error->message);
}

void Instantiate(const nb::capsule& handler, const nb::dict& attributes) {
  Call(HandlerOf(handler), XLA_FFI_ExecutionStage_INSTANTIATE, attributes, {}, {}, {});
}

void Execute(const nb::capsule& handler, const nb::dict& attributes, const std::vector<Array>& operands,
             const std::vector<Array>& results, uintptr_t stream, int64_t run_id) {
  Call(HandlerOf(handler), XLA_FFI_ExecutionStage_EXECUTE, attributes, operands, results,
       {reinterpret_cast<void*>(stream), run_id});
}

// Asked for as XLA asks when a handler is registered.
std::tuple<int, int, bool> Metadata(const nb::capsule& handler) {
  XLA_FFI_Metadata metadata{};
  metadata.struct_size = XLA_FFI_Metadata_STRUCT_SIZE;
  metadata.api_version.struct_size = XLA_FFI_Api_Version_STRUCT_SIZE;
  XLA_FFI_Metadata_Extension extension{{XLA_FFI_Metadata_Extension_STRUCT_SIZE, XLA_FFI_Extension_Metadata, nullptr},
                                       &metadata};
  XLA_FFI_CallFrame frame{};
  frame.struct_size = XLA_FFI_CallFrame_STRUCT_SIZE;
  frame.extension_start = &extension.extension_base;
  frame.api = &Api();
  const std::unique_ptr<XLA_FFI_Error> error(HandlerOf(handler)(&frame));
  if (error != nullptr) throw std::runtime_error(error->message);
  return {metadata.api_version.major_version, metadata.api_version.minor_version,
          (metadata.traits & XLA_FFI_HANDLER_TRAITS_COMMAND_BUFFER_COMPATIBLE) != 0};
}

}  // namespace

NB_MODULE(handler_caller, m) {
  m.doc() = "Calls XLA FFI handlers the way XLA does. An error of the handler is a RuntimeError.";
  m.def("instantiate", &Instantiate, nb::arg("handler"), nb::arg("attributes"));
  m.def("execute", &Execute, nb::arg("handler"), nb::arg("attributes"), nb::arg("operands"), nb::arg("results"),
        nb::arg("stream"), nb::arg("run_id"),
        "Arrays are (address, NumPy type, shape); attributes integers, strings or lists of integers.");
  m.def("metadata", &Metadata, nb::arg("handler"), "FFI version, and whether calls may be captured into graphs.");
}
