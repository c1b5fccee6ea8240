// libnvshmem_host.so.3 over the emulated driver: symmetric heaps are files in /dev/shm, transfers are copies and stream
// memory operations on the caller's stream. One world a process, init by unique id.
#include <cuda.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace {

constexpr int kMaxTeams = 1024;
struct Header {  // at the start of each PE's heap
  uint64_t ready;
  uint64_t arrived[kMaxTeams];
};
constexpr size_t kHeaderBytes = 64 << 10;

struct UniqueId {
  int32_t version;
  char internal[124];
};
struct UniqueIdArguments {
  int32_t version;
  const UniqueId* id;
  int32_t rank, ranks;
};
struct InitArguments {
  int32_t version;
  UniqueIdArguments unique_id;
  char content[96];
};
struct InitAttributes {
  int32_t version;
  void* mpi;
  InitArguments arguments;
};
struct Team {
  std::vector<int> members;
  int me = -1;
  uint64_t epoch = 0;
};
struct World {
  int me = -1, size = 0;
  size_t bytes = 0, used = kHeaderBytes;
  std::vector<char*> base;
  std::vector<Team> teams;
} world;

Header& HeaderOf(int pe) { return *reinterpret_cast<Header*>(world.base[pe]); }
template <typename T>
T* Remote(T* address, int pe) {
  return reinterpret_cast<T*>(world.base[pe] + (reinterpret_cast<char*>(address) - world.base[world.me]));
}
CUdeviceptr Address(const void* p) { return reinterpret_cast<CUdeviceptr>(p); }
void Meet(int team) {
  Team& t = world.teams[team];
  const uint64_t goal = ++t.epoch * t.members.size();
  for (int pe : t.members) __atomic_fetch_add(&HeaderOf(pe).arrived[team], 1, __ATOMIC_ACQ_REL);
  while (__atomic_load_n(&HeaderOf(world.me).arrived[team], __ATOMIC_ACQUIRE) < goal) usleep(50);
}

}  // namespace

extern "C" {

void nvshmemx_vendor_get_version_info(int* major, int* minor, int* patch) { *major = 3, *minor = 8, *patch = 0; }
int nvshmemx_get_uniqueid(UniqueId* id) {
  memset(id, 0, sizeof(*id));
  id->version = (1 << 16) + sizeof(UniqueId);
  std::random_device random;
  snprintf(id->internal, sizeof(id->internal), "/gpu-emulator-nvshmem-%08x%08x", random(), random());
  return 0;
}
int nvshmemx_set_attr_uniqueid_args(int rank, int ranks, const UniqueId* id, InitAttributes* attributes) {
  attributes->arguments.unique_id.id = id;
  attributes->arguments.unique_id.rank = rank;
  attributes->arguments.unique_id.ranks = ranks;
  return 0;
}
int nvshmemx_hostlib_init_attr(unsigned, InitAttributes* attributes) {
  const UniqueIdArguments& a = attributes->arguments.unique_id;
  CUcontext context = nullptr;
  cuCtxGetCurrent(&context);
  if (context == nullptr) return fprintf(stderr, "nvshmem: no current context\n"), 7;
  const char* size = getenv("NVSHMEM_SYMMETRIC_SIZE");
  world.me = a.rank;
  world.size = a.ranks;
  world.bytes = (size == nullptr ? 64UL << 20 : strtoull(size, nullptr, 10)) + kHeaderBytes;
  world.base.resize(a.ranks);
  const std::string name = a.id->internal;
  const auto path = [&](int pe) { return name + "." + std::to_string(pe); };
  for (int step = 0; step < a.ranks; ++step) {
    const int pe = (a.rank + step) % a.ranks;  // our own first
    int fd = -1;
    if (pe == a.rank) {
      fd = shm_open(path(pe).c_str(), O_RDWR | O_CREAT | O_EXCL, 0600);
      if (fd < 0 || ftruncate(fd, static_cast<off_t>(world.bytes)) != 0) return 7;
    } else {
      struct stat status{};
      for (int i = 0; i < 20000; ++i) {
        if (fd < 0) fd = shm_open(path(pe).c_str(), O_RDWR, 0600);
        if (fd >= 0 && fstat(fd, &status) == 0 && static_cast<size_t>(status.st_size) == world.bytes) break;
        usleep(1000);
      }
      if (fd < 0) return 7;
    }
    void* memory = mmap(nullptr, world.bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    close(fd);
    if (memory == MAP_FAILED) return 7;
    world.base[pe] = static_cast<char*>(memory);
  }
  world.teams.resize(kMaxTeams);
  for (int pe = 0; pe < world.size; ++pe) world.teams[0].members.push_back(pe);
  world.teams[0].me = world.me;
  Meet(0);
  shm_unlink(path(world.me).c_str());
  return 0;
}
int nvshmemx_init_status() { return world.me >= 0 ? 2 : 0; }
void nvshmemx_hostlib_finalize() {}
int nvshmem_my_pe() { return world.me; }
int nvshmem_n_pes() { return world.size; }
void* nvshmem_malloc(size_t bytes) {
  bytes = (bytes + 4095) / 4096 * 4096;
  void* memory = world.used + bytes <= world.bytes ? world.base[world.me] + world.used : nullptr;
  if (memory != nullptr) world.used += bytes;
  Meet(0);
  return memory;
}
void nvshmem_free(void*) {}
void* nvshmem_ptr(const void* address, int pe) { return Remote(const_cast<void*>(address), pe); }

void nvshmemx_putmem_on_stream(void* to, const void* from, size_t bytes, int pe, CUstream stream) {
  cuMemcpyAsync(Address(Remote(to, pe)), Address(from), bytes, stream);
}
void nvshmemx_signal_op_on_stream(uint64_t* word, uint64_t value, int op, int pe, CUstream stream) {
  uint64_t* remote = Remote(word, pe);
  if (op == 9) {
    cuStreamWriteValue64(stream, Address(remote), value, 0);
    return;
  }
  struct Add {
    uint64_t *word, value;
  };
  cuLaunchHostFunc(
      stream,
      [](void* data) {  // not freed: a graph may run it again
        const auto* add = static_cast<Add*>(data);
        __atomic_fetch_add(add->word, add->value, __ATOMIC_ACQ_REL);
      },
      new Add{remote, value});
}
void nvshmemx_putmem_signal_on_stream(void* to, const void* from, size_t bytes, uint64_t* word, uint64_t value, int op,
                                      int pe, CUstream stream) {
  nvshmemx_putmem_on_stream(to, from, bytes, pe, stream);
  nvshmemx_signal_op_on_stream(word, value, op, pe, stream);
}
void nvshmemx_signal_wait_until_on_stream(uint64_t* word, int compare, uint64_t value, CUstream stream) {
  if (compare == 0 || compare == 5) {
    cuStreamWaitValue64(stream, Address(word), value,
                        compare == 0 ? CU_STREAM_WAIT_VALUE_EQ : CU_STREAM_WAIT_VALUE_GEQ);
  } else {
    fprintf(stderr, "nvshmem: comparison %d\n", compare);
    abort();
  }
}
void nvshmemx_quiet_on_stream(CUstream) {}
int nvshmemx_barrier_on_stream(int team, CUstream stream) {
  return cuLaunchHostFunc(
      stream, [](void* t) { Meet(static_cast<int>(reinterpret_cast<intptr_t>(t))); },
      reinterpret_cast<void*>(static_cast<intptr_t>(team)));
}
int nvshmem_team_my_pe(int team) { return world.teams[team].me; }
int nvshmem_team_n_pes(int team) { return static_cast<int>(world.teams[team].members.size()); }
int nvshmem_team_translate_pe(int team, int pe, int other) {
  const int global = world.teams[team].members[pe];
  const auto& members = world.teams[other].members;
  for (size_t i = 0; i < members.size(); ++i) {
    if (members[i] == global) return static_cast<int>(i);
  }
  return -1;
}
int nvshmem_team_split_strided(int parent, int start, int stride, int size, const void*, long, int* team) {
  static int next = 1;
  const int id = next++;
  Team& t = world.teams[id];
  for (int i = 0; i < size; ++i) {
    t.members.push_back(world.teams[parent].members[start + i * stride]);
    if (t.members.back() == world.me) t.me = i;
  }
  *team = t.me >= 0 ? id : -1;
  Meet(parent);
  return 0;
}
int nvshmem_team_split_2d(int, int, const void*, long, int*, const void*, long, int*) { return 7; }
void nvshmem_team_destroy(int) {}

}  // extern "C"
