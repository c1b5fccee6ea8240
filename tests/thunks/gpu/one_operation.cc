#include "tests/thunks/gpu/one_operation.h"

#include <doctest/doctest.h>

namespace xla_shmem::testing {

void Run(GpuJob::Pe& pe, Form form, const gpu::PermuteArguments& permute) {
  OnDevice(pe, [&] {
    if (form == Form::kOverlapping) {
      CHECK(pe.transfers->StartPermute({permute.tag, 1}, permute, pe.compute).message() == "");
      CHECK(pe.transfers->Finish({permute.tag, 1}, permute.name, pe.compute).message() == "");
      return;
    }
    if (form == Form::kGraph) pe.cuda->BeginCapture(pe.compute);
    CHECK(pe.transfers->ReplayPermute(permute, pe.compute).message() == "");
    if (form != Form::kGraph) return;
    pe.cuda->EndCapture(pe.compute);
    pe.cuda->LaunchGraph(pe.compute);
  });
}

void Run(GpuJob::Pe& pe, Form form, const gpu::GroupArguments& group) {
  OnDevice(pe, [&] {
    if (form == Form::kOverlapping) {
      CHECK(pe.transfers->StartGroup({group.tag, 1}, group, pe.compute).message() == "");
      CHECK(pe.transfers->Finish({group.tag, 1}, group.name, pe.compute).message() == "");
      return;
    }
    if (form == Form::kGraph) pe.cuda->BeginCapture(pe.compute);
    CHECK(pe.transfers->RunGroup(group, pe.compute).message() == "");
    if (form != Form::kGraph) return;
    pe.cuda->EndCapture(pe.compute);
    pe.cuda->LaunchGraph(pe.compute);
  });
}

}  // namespace xla_shmem::testing
