// Codes of CUresult (cuda.h) that the doubles of the driver answer with, and what CUDA calls them.
#ifndef XLA_SHMEM_TESTS_NVSHMEM_GPU_CUDA_ERRORS_H_
#define XLA_SHMEM_TESTS_NVSHMEM_GPU_CUDA_ERRORS_H_

namespace xla_shmem::testing {

inline constexpr int kInvalidValue = 1;
inline constexpr int kInvalidDevice = 101;
inline constexpr int kInvalidContext = 201;
inline constexpr int kInvalidHandle = 400;  // CUDA_ERROR_INVALID_HANDLE
inline constexpr int kNotFound = 500;
inline constexpr int kLaunchFailed = 719;
inline constexpr int kDriverMismatch = 803;

inline const char* CudaErrorName(int error) {
  switch (error) {
    case kInvalidValue:
      return "CUDA_ERROR_INVALID_VALUE";
    case kInvalidDevice:
      return "CUDA_ERROR_INVALID_DEVICE";
    case kInvalidContext:
      return "CUDA_ERROR_INVALID_CONTEXT";
    case kNotFound:
      return "CUDA_ERROR_NOT_FOUND";
    case kLaunchFailed:
      return "CUDA_ERROR_LAUNCH_FAILED";
    case kDriverMismatch:
      return "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH";
    default:
      return "CUDA_ERROR_UNKNOWN";
  }
}

}  // namespace xla_shmem::testing

#endif  // XLA_SHMEM_TESTS_NVSHMEM_GPU_CUDA_ERRORS_H_
