/* FFI handlers that do nothing: enough to compile for a GPU that is not there. They say of themselves what the real ones
   do: the self-joined call may be captured into a command buffer, the overlapping pair may not. */
#include "xla/ffi/api/c_api.h"

static XLA_FFI_Error* Answer(XLA_FFI_CallFrame* frame, XLA_FFI_Handler_Traits traits) {
  for (XLA_FFI_Extension_Base* extension = frame->extension_start; extension; extension = extension->next) {
    if (extension->type == XLA_FFI_Extension_Metadata) {
      XLA_FFI_Metadata* metadata = ((XLA_FFI_Metadata_Extension*)extension)->metadata;
      metadata->api_version.struct_size = XLA_FFI_Api_Version_STRUCT_SIZE;
      metadata->api_version.major_version = XLA_FFI_API_MAJOR;
      metadata->api_version.minor_version = XLA_FFI_API_MINOR;
      metadata->traits = traits;
    }
  }
  return 0;
}

XLA_FFI_Error* stream_handler(XLA_FFI_CallFrame* frame) { return Answer(frame, 0); }

XLA_FFI_Error* capturable_handler(XLA_FFI_CallFrame* frame) {
  return Answer(frame, XLA_FFI_HANDLER_TRAITS_COMMAND_BUFFER_COMPATIBLE);
}
