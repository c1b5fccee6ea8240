// FFI handlers that do nothing: enough to compile for a GPU that is not there. They say of themselves what the real
// ones do: the self-joined call may be captured into a command buffer, the overlapping pair may not.
#include "xla/ffi/api/ffi.h"

namespace ffi = ::xla::ffi;

static ffi::Error Nothing() { return ffi::Error::Success(); }

XLA_FFI_DEFINE_HANDLER_SYMBOL(stream_handler, Nothing, ffi::Ffi::Bind());
XLA_FFI_DEFINE_HANDLER_SYMBOL(capturable_handler, Nothing, ffi::Ffi::Bind(), {ffi::Traits::kCmdBufferCompatible});
