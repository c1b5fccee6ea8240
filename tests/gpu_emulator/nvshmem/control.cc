#include "nvshmem/control.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace emulator::nvshmem {
namespace {

Control* control = nullptr;

}  // namespace

Control* MapControl(const std::string& name) {
  // Each process may come first. New bytes are zero, which is the beginning of every field.
  const int file = shm_open(name.c_str(), O_RDWR | O_CREAT, 0600);
  if (file < 0 || ftruncate(file, sizeof(Control)) != 0) return nullptr;
  void* memory = mmap(nullptr, sizeof(Control), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  control = memory == MAP_FAILED ? nullptr : static_cast<Control*>(memory);
  return control;
}

Control& TheControl() { return *control; }

}  // namespace emulator::nvshmem
