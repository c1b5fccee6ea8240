// The reductions that the NVLink switch does for collectives: one table for the host, which chooses the kernel, and for
// the device code, which makes an instruction of each row. Compiled by the host and by NVRTC.
//
// From the description of multimem.ld_reduce in the PTX ISA (since 8.1, compute capability 9.0). Not in the table:
//
//   floats of 8 bits       only compute capability 10.0 and above, some models of it
//   min and max of f16     the instruction has no modifier that makes NaN the result, as XLA's min and max do
//   min and max of f32,    the instruction lacks them
//   f64; products;
//   integers of 8 and 16 bits
//
// The ISA leaves open in which order and how exactly floats are added, so a sum is computed once and then distributed.
#ifndef XLA_SHMEM_NVSHMEM_GPU_KERNELS_MULTIMEM_REDUCTIONS_H_
#define XLA_SHMEM_NVSHMEM_GPU_KERNELS_MULTIMEM_REDUCTIONS_H_

// ROW(elements, kind, registers, operation). `elements`: of Elements (arguments.h). `registers`: how 16 bytes are
// loaded: Vector of four registers by one instruction, Four of 32 bits or Two of 64 bits by one instruction each.
// Signed integers have the sums of unsigned ones; sums of complex numbers are those of their parts.
#define XLA_SHMEM_MULTIMEM_REDUCTIONS(ROW)                \
  ROW(kSumsOfF32, Sum, Vector, "add.v4.f32")              \
  ROW(kSumsOfF16, Sum, Vector, "add.acc::f32.v4.f16x2")   \
  ROW(kSumsOfBf16, Sum, Vector, "add.acc::f32.v4.bf16x2") \
  ROW(kF64, Sum, Two, "add.f64")                          \
  ROW(kU32, Sum, Four, "add.u32")                         \
  ROW(kU64, Sum, Two, "add.u64")                          \
  ROW(kS32, Min, Four, "min.s32")                         \
  ROW(kS32, Max, Four, "max.s32")                         \
  ROW(kU32, Min, Four, "min.u32")                         \
  ROW(kU32, Max, Four, "max.u32")                         \
  ROW(kS64, Min, Two, "min.s64")                          \
  ROW(kS64, Max, Two, "max.s64")                          \
  ROW(kU64, Min, Two, "min.u64")                          \
  ROW(kU64, Max, Two, "max.u64")                          \
  ROW(kBits, And, Two, "and.b64")                         \
  ROW(kBits, Or, Two, "or.b64")                           \
  ROW(kBits, Xor, Two, "xor.b64")

#endif  // XLA_SHMEM_NVSHMEM_GPU_KERNELS_MULTIMEM_REDUCTIONS_H_
