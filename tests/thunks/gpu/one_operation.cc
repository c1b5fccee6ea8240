#include "tests/thunks/gpu/one_operation.h"

#include <doctest/doctest.h>

namespace xla_shmem::testing {
namespace {

// `start` and `whole` enqueue the operation as an overlapping pair's first half, and in one call.
template <typename Arguments, typename Start, typename Whole>
void RunInForm(GpuJob::Pe& pe, Form form, const Arguments& arguments, Start start, Whole whole) {
  OnDevice(pe, [&] {
    if (form == Form::kOverlapping) {
      CHECK(start().message() == "");
      CHECK(pe.transfers->Finish({arguments.tag, 1}, arguments.name, pe.compute).message() == "");
      return;
    }
    if (form == Form::kGraph) pe.cuda->BeginCapture(pe.compute);
    CHECK(whole().message() == "");
    if (form != Form::kGraph) return;
    pe.cuda->EndCapture(pe.compute);
    pe.cuda->LaunchGraph(pe.compute);
  });
}

}  // namespace

void Run(GpuJob::Pe& pe, Form form, const gpu::PermuteArguments& permute) {
  RunInForm(
      pe, form, permute, [&] { return pe.transfers->StartPermute({permute.tag, 1}, permute, pe.compute); },
      [&] { return pe.transfers->RunPermute(permute, pe.compute); });
}

void Run(GpuJob::Pe& pe, Form form, const gpu::GroupArguments& group) {
  RunInForm(
      pe, form, group, [&] { return pe.transfers->StartGroup({group.tag, 1}, group, pe.compute); },
      [&] { return pe.transfers->RunGroup(group, pe.compute); });
}

}  // namespace xla_shmem::testing
