#include "xla_patch/nvshmem/gpu/batched_stream.h"

namespace xla_shmem::gpu {

void BatchedStream::Flush() {
  device_->Run(operations_, stream_);
  operations_.clear();
}

void BatchedStream::Put(void* dest, const void* source, size_t bytes, int pe) {
  Flush();
  device_->Put(dest, source, bytes, pe, stream_);
}

void BatchedStream::PutSignal(void* dest, const void* source, size_t bytes, uint64_t* word, uint64_t value, int pe) {
  if (device_->puts() == Puts::kNvshmem) {
    Flush();
    device_->PutSignal(dest, source, bytes, word, value, pe, stream_);
  } else if (device_->CopiesSignal(word, pe)) {
    Add({MemoryOperation::Kind::kWrite, word, value});
    Put(dest, source, bytes, pe);
    Put(word, word, sizeof(*word), pe);
  } else {
    Put(dest, source, bytes, pe);
    Signal(word, value, pe);
  }
}

void BatchedStream::Signal(uint64_t* word, uint64_t value, int pe) {
  if (device_->CopiesSignal(word, pe)) {
    Add({MemoryOperation::Kind::kWrite, word, value});
    Put(word, word, sizeof(*word), pe);
  } else {
    Add({MemoryOperation::Kind::kSignal, word, value, pe});
  }
}

void BatchedStream::Copy(void* destination, const void* source, size_t bytes) {
  Flush();
  device_->Copy(destination, source, bytes, stream_);
}

void BatchedStream::Fill(void* destination, unsigned char value, size_t bytes) {
  Flush();
  device_->Fill(destination, value, bytes, stream_);
}

}  // namespace xla_shmem::gpu
