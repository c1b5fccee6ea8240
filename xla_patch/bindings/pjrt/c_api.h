// The structs of PJRT's C ABI that registration needs, declared here so that the build needs no header of XLA.
// Layouts are those of xla/pjrt/c/pjrt_c_api.h and its gpu, ffi and xla_transform extensions. Each struct starts with
// its size in the version of its writer, and later versions only append: check the size before you read a field.
#ifndef XLA_SHMEM_BINDINGS_PJRT_C_API_H_
#define XLA_SHMEM_BINDINGS_PJRT_C_API_H_

#include <cstddef>
#include <cstdint>

namespace xla_shmem::pjrt {

enum ExtensionType : int {
  kGpuCustomCallExtension = 0,
  kXlaTransformExtension = 24,
};

struct Extension {
  size_t struct_size;
  int type;
  Extension* next;
};

struct Error;  // owned by the plugin

struct ErrorDestroyArgs {
  size_t struct_size;
  Extension* extension_start;
  Error* error;
};

struct ErrorMessageArgs {
  size_t struct_size;
  Extension* extension_start;
  const Error* error;
  const char* message;  // out
  size_t message_size;  // out
};

struct ApiVersion {
  size_t struct_size;
  Extension* extension_start;
  int major;
  int minor;
};

struct Api {
  size_t struct_size;
  Extension* extension_start;
  ApiVersion version;
  void (*error_destroy)(ErrorDestroyArgs*);
  void (*error_message)(ErrorMessageArgs*);
  // Hundreds more.
};

struct Text {
  const char* data;
  size_t size;
};

// XlaTransform.
struct TransformHeader {
  int64_t api_version;
  void* data;              // out: for `cleanup`
  void (*cleanup)(void*);  // out: called when XLA has read the results
  bool has_error;          // out
  int code;                // out
  Text message;            // out
};

struct TransformArgs {
  size_t struct_size;
  TransformHeader header;
  Text module;       // serialised HloModuleProto
  Text transformed;  // out
  bool changed;      // out
};

struct TransformCallbacks {
  int64_t version;
  void (*destroy)(TransformCallbacks*);
  void (*transform)(TransformCallbacks*, TransformArgs*);
};

enum PipelineStage : int { kPostScheduler = 1 };

struct RegisterTransformArgs {
  size_t struct_size;
  const char* name;
  size_t name_size;
  PipelineStage stage;
  TransformCallbacks* callbacks;
};

struct ClearTransformArgs {
  size_t struct_size;
  PipelineStage stage;
  const char* name;
  size_t name_size;
  TransformCallbacks* callbacks;
  bool cleared;  // out
};

struct TransformExtension {
  Extension base;
  Error* (*register_transform)(RegisterTransformArgs*);
  Error* (*clear_transform)(ClearTransformArgs*);
};

constexpr int64_t kTransformVersion = 1;

// FFI handlers in all stages; the FFI extension's own call takes only the execute stage.
struct RegisterCustomCallArgs {
  size_t struct_size;
  const char* name;
  size_t name_size;
  int api_version;
  void* instantiate;
  void* prepare;
  void* initialize;
  void* execute;
};

struct CustomCallExtension {
  Extension base;
  Error* (*register_custom_call)(RegisterCustomCallArgs*);
};

constexpr int kTypedFfi = 1;

// Bytes of a struct up to the end of one of its members, as PJRT counts them.
// NOLINTNEXTLINE(bugprone-sizeof-expression): members that are pointers are meant
#define XLA_SHMEM_PJRT_SIZE(type, member) (offsetof(type, member) + sizeof(decltype(type::member)))

}  // namespace xla_shmem::pjrt

#endif  // XLA_SHMEM_BINDINGS_PJRT_C_API_H_
