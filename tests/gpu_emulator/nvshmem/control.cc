#include "nvshmem/control.h"

#include "driver/shared_object.h"

namespace emulator::nvshmem {
namespace {

Control* control = nullptr;

}  // namespace

Control* MapControl(const std::string& name) {
  control = static_cast<Control*>(MapShared(name, sizeof(Control)));
  return control;
}

Control& TheControl() { return *control; }

}  // namespace emulator::nvshmem
