// NVSHMEM's environment variables. The real library reads them all at once, in the first call that needs one of them:
// nvshmemx_get_uniqueid on PE 0, init on the others. Later changes are not seen.
#pragma once

#include <cstddef>
#include <string>

namespace emulator::nvshmem {

void ReadVariables();

// The value that was read; `otherwise` if the variable was not set then.
std::string Variable(const char* name, const char* otherwise);
size_t VariableBytes(const char* name, size_t otherwise);  // with a suffix K, M or G

}  // namespace emulator::nvshmem
