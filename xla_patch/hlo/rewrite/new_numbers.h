#ifndef XLA_SHMEM_HLO_REWRITE_NEW_NUMBERS_H_
#define XLA_SHMEM_HLO_REWRITE_NEW_NUMBERS_H_

#include <cstdint>
#include <unordered_map>

#include "xla_patch/assigner/device_assignment.h"
#include "xla_patch/hlo/proto/module_reader.h"

namespace xla_shmem::hlo {

// Numbers for instructions that are added to a module. Equal on all ranks.
class NewNumbers {
 public:
  NewNumbers(const Module& module, const DeviceAssignment& assignment) : module_(module), assignment_(assignment) {}

  // An id that no instruction has, for the computation of the instruction `neighbour`.
  int64_t Id(int64_t neighbour);
  // A channel id that no instruction has.
  int64_t Channel();
  // What replica groups and pairs call a device: its replica or its partition. The module must not have several of
  // both.
  int64_t OfDevice(int64_t device);
  bool has_partitions() const { return assignment_.partition_count() > 1; }

 private:
  void FindLast();

  const Module& module_;
  const DeviceAssignment& assignment_;
  bool found_last_ = false;
  int64_t last_id_ = 0;
  int64_t last_channel_ = 0;
  std::unordered_map<int64_t, int64_t> of_device_;
};

}  // namespace xla_shmem::hlo

#endif  // XLA_SHMEM_HLO_REWRITE_NEW_NUMBERS_H_
