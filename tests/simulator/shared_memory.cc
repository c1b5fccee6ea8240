#include "tests/simulator/shared_memory.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

#include "tests/simulator/memory_model.h"
#include "tests/simulator/scheduler.h"

namespace xla_shmem::simulator {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kAreaBytes = size_t{8} << 40;  // address space only
constexpr int kPattern = 0xdd;

size_t WholePages(size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

char* Map(size_t bytes) {
  void* const mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) Scheduler::Get().Fail("the machine has no " + std::to_string(bytes) + " bytes");
  return static_cast<char*>(mapped);
}

}  // namespace

int OwnCode::depth_ = 0;
char* SharedMemory::begin_ = nullptr;
char* SharedMemory::end_ = nullptr;

SharedMemory& SharedMemory::Get() {
  static auto* const memory = new SharedMemory;
  return *memory;
}

char* SharedMemory::TakeSegment(int process, size_t bytes) {
  if (begin_ == nullptr) {
    begin_ = next_ = Map(kAreaBytes);
    end_ = begin_ + kAreaBytes;
  }
  char* const segment = next_;
  next_ += WholePages(bytes) + kPage;
  if (next_ > end_) Scheduler::Get().Fail("the segments of all processes do not fit the simulated machine");
  segments_[segment] = process;
  return segment;
}

std::string SharedMemory::Describe(const void* address) const {
  const auto* const byte = static_cast<const char*>(address);
  auto found = segments_.upper_bound(byte);
  if (found == segments_.begin()) return "private memory";
  --found;
  return "byte " + std::to_string(byte - found->first) + " of the segment of process " + std::to_string(found->second);
}

const SharedMemory::Pages& SharedMemory::pages() {
  if (pages_.own != nullptr) return pages_;
  const int file = memfd_create("private memory", 0);
  const auto map = [&](int protection) {
    return static_cast<char*>(mmap(nullptr, kAreaBytes, protection, MAP_SHARED | MAP_NORESERVE, file, 0));
  };
  if (file < 0 || ftruncate(file, kAreaBytes) != 0) Scheduler::Get().Fail("the machine has no file in memory");
  pages_ = {map(PROT_READ | PROT_WRITE), map(PROT_READ), kAreaBytes};
  close(file);
  if (pages_.own == MAP_FAILED || pages_.others == MAP_FAILED) Scheduler::Get().Fail("the machine maps no file");
  return pages_;
}

void* SharedMemory::TakePages(size_t bytes) {
  char* const taken = pages().own + taken_;
  taken_ += WholePages(bytes);
  if (taken_ > pages_.bytes) Scheduler::Get().Fail("private memory does not fit the simulated machine");
  return taken;
}

void SharedMemory::GiveBackPages(void* address, size_t bytes) {
  madvise(address, WholePages(bytes), MADV_REMOVE);
  mprotect(address, WholePages(bytes), PROT_NONE);
  given_back_[static_cast<char*>(address)] = WholePages(bytes);
}

bool SharedMemory::IsReadable(const void* address, size_t bytes) const {
  const auto* const begin = static_cast<const char*>(address);
  auto found = given_back_.upper_bound(begin + bytes - 1);
  if (found == given_back_.begin()) return true;
  --found;
  return found->first + found->second <= begin;
}

void SharedMemory::CatchBadAccesses() {
  static char stack[64 << 10];  // the thread's own may be what overflowed
  const stack_t alternate{stack, 0, sizeof(stack)};
  sigaltstack(&alternate, nullptr);
  struct sigaction action = {};
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  action.sa_sigaction = [](int, siginfo_t* info, void*) {
    const bool is_late = !Get().IsReadable(info->si_addr, 1);
    Scheduler::Get().Fail(is_late ? "uses private memory that was given back" : "uses an address without memory");
  };
  sigaction(SIGSEGV, &action, nullptr);
}

namespace {

// Before every block from operator new.
struct alignas(16) Header {
  size_t bytes;
  enum class Kind : size_t { kOwn, kSmall, kPages } kind;
};

// Alignments above 16 are rare: their header lies before a gap.
void* Take(size_t bytes, size_t alignment) {
  const size_t gap = alignment > sizeof(Header) ? alignment : sizeof(Header);
  const size_t total = bytes + gap;
  const bool own = OwnCode::depth() > 0 || Scheduler::current() == nullptr;
  char* block = nullptr;
  if (!own && total >= kPage) {
    const OwnCode own_code;
    block = static_cast<char*>(SharedMemory::Get().TakePages(total));
  } else {
    block = static_cast<char*>(
        aligned_alloc(alignment > 16 ? alignment : 16, (total + alignment - 1) / alignment * alignment));
    if (block == nullptr) throw std::bad_alloc();
    if (!own) memset(block, kPattern, total);
  }
  char* const memory = block + gap;
  *reinterpret_cast<Header*>(memory - sizeof(Header)) = {total, own              ? Header::Kind::kOwn
                                                                : total >= kPage ? Header::Kind::kPages
                                                                                 : Header::Kind::kSmall};
  return memory;
}

void GiveBack(void* memory, size_t alignment) {
  if (memory == nullptr) return;
  const size_t gap = alignment > sizeof(Header) ? alignment : sizeof(Header);
  const Header header = *reinterpret_cast<Header*>(static_cast<char*>(memory) - sizeof(Header));
  char* const block = static_cast<char*>(memory) - gap;
  if (header.kind == Header::Kind::kOwn) {
    free(block);
    return;
  }
  const OwnCode own_code;
  MemoryModel::Get().Forget(block, header.bytes);
  if (header.kind == Header::Kind::kPages) {
    SharedMemory::Get().GiveBackPages(block, header.bytes);
  } else {
    memset(memory, kPattern, header.bytes - gap);
  }
}

}  // namespace
}  // namespace xla_shmem::simulator

void* operator new(size_t bytes) { return xla_shmem::simulator::Take(bytes, 16); }
void* operator new(size_t bytes, std::align_val_t alignment) {
  return xla_shmem::simulator::Take(bytes, static_cast<size_t>(alignment));
}
void operator delete(void* memory) noexcept { xla_shmem::simulator::GiveBack(memory, 16); }
void operator delete(void* memory, size_t /*bytes*/) noexcept { xla_shmem::simulator::GiveBack(memory, 16); }
void operator delete(void* memory, std::align_val_t alignment) noexcept {
  xla_shmem::simulator::GiveBack(memory, static_cast<size_t>(alignment));
}
void operator delete(void* memory, size_t /*bytes*/, std::align_val_t alignment) noexcept {
  xla_shmem::simulator::GiveBack(memory, static_cast<size_t>(alignment));
}
