// The operands and the result of a ragged all-to-all, read off its call for both platforms.
#ifndef XLA_SHMEM_BINDINGS_FFI_RAGGED_OPERANDS_H_
#define XLA_SHMEM_BINDINGS_FFI_RAGGED_OPERANDS_H_

#include <cstddef>
#include <string>
#include <vector>

#include "xla/ffi/api/ffi.h"
#include "xla_patch/types/status.h"

namespace xla_shmem {

struct RaggedOperands {
  const char* input = nullptr;
  const char* output = nullptr;
  char* result = nullptr;
  size_t row_bytes = 0;
  size_t input_rows = 0;
  size_t output_rows = 0;  // of `output` and `result`
  size_t slices = 0;       // for each member
  // Input offsets, send sizes, output offsets, receive sizes: integers, `slices` for each member.
  std::vector<::xla::ffi::AnyBuffer> numbers;
};

// `name`: of the call, for errors. An error for a call that this xla-shmem did not write.
Result<RaggedOperands> ReadRaggedOperands(const std::string& name, ::xla::ffi::RemainingArgs operands,
                                          ::xla::ffi::RemainingRets results, size_t members);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_BINDINGS_FFI_RAGGED_OPERANDS_H_
