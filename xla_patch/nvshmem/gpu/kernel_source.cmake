# Writes `result` in the present build folder: the device code of `root` (xla_patch/) as one text, each file behind those
# that it includes. @ONLY, since the code has braces and dollars of its own.
function(xla_shmem_kernel_source root result)
  set(XLA_SHMEM_KERNELS "")
  foreach(source thunks/narrow_floats.h nvshmem/gpu/kernels/arguments.h nvshmem/gpu/kernels/platform.cuh
          nvshmem/gpu/kernels/copies.cuh nvshmem/gpu/kernels/messages.cuh nvshmem/gpu/kernels/exchange.cuh
          nvshmem/gpu/kernels/packets.cuh nvshmem/gpu/kernels/split.cuh nvshmem/gpu/kernels/ragged_all_to_all.cuh
          nvshmem/gpu/kernels/reduction.cuh nvshmem/gpu/kernels/multimem_reductions.h
          nvshmem/gpu/kernels/multimem.cuh nvshmem/gpu/kernels/kernels.cu)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${root}/${source})
    file(READ ${root}/${source} text)
    string(REGEX REPLACE "#include [^\n]*\n" "" text "${text}")
    string(APPEND XLA_SHMEM_KERNELS "${text}")
  endforeach()
  configure_file(${root}/nvshmem/gpu/kernel_source.cc.in ${result} @ONLY)
endfunction()
