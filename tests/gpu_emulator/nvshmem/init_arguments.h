// Arguments of NVSHMEM's start by unique id, and what the real library would not take.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace emulator::nvshmem {

constexpr int kInternalError = 7;  // NVSHMEMX_ERROR_INTERNAL
constexpr unsigned kInitWithUniqueId = 1U << 3;

// nvshmem_uniqueid.h and nvshmem_types.h of NVSHMEM 3: a version is its number << 16 plus the size of the struct.
struct UniqueId {
  int32_t version;
  char internal[124];
};
static_assert(sizeof(UniqueId) == 128);
struct UniqueIdArguments {
  int32_t version;
  const UniqueId* id;
  int32_t rank;
  int32_t ranks;
};
static_assert(sizeof(UniqueIdArguments) == 24 && offsetof(UniqueIdArguments, rank) == 16);
struct InitArguments {
  int32_t version;
  UniqueIdArguments unique_id;
  int32_t cuda_device;  // from version 2
  char content[92];
};
static_assert(sizeof(InitArguments) == 128 && offsetof(InitArguments, unique_id) == 8);
struct InitAttributes {
  int32_t version;
  void* mpi_communicator;
  InitArguments arguments;
};
static_assert(sizeof(InitAttributes) == 144 && offsetof(InitAttributes, arguments) == 16);

// These return "" if nothing is wrong.
inline std::string WrongVersion(int32_t version, int newest, size_t bytes, const char* what) {
  const int number = version >> 16;
  if (number >= 1 && number <= newest && static_cast<size_t>(version & 0xffff) == bytes) return "";
  return std::string(what) + " has version " + std::to_string(number) + " with " + std::to_string(version & 0xffff) +
         " bytes";
}

inline std::string WrongUniqueId(const UniqueId* id) {
  return id == nullptr ? "no unique id" : WrongVersion(id->version, 1, sizeof(UniqueId), "nvshmemx_uniqueid_t");
}

inline std::string WrongAttributes(const InitAttributes& attributes) {
  const InitArguments& arguments = attributes.arguments;
  std::string wrong = WrongVersion(attributes.version, 2, sizeof(InitAttributes), "nvshmemx_init_attr_t");
  if (wrong.empty()) wrong = WrongVersion(arguments.version, 2, sizeof(InitArguments), "nvshmemx_init_args_t");
  if (wrong.empty()) {
    wrong = WrongVersion(arguments.unique_id.version, 1, sizeof(UniqueIdArguments), "nvshmemx_uniqueid_args_t");
  }
  if (!wrong.empty()) return wrong;
  if (attributes.mpi_communicator != nullptr) return "an MPI communicator beside a unique id";
  if (arguments.version >> 16 >= 2 && arguments.cuda_device != -1) {
    return "init is to choose a device, and the context of one is current";
  }
  return "";
}

}  // namespace emulator::nvshmem
