#include "xla_patch/shm/copy.h"

#include <string.h>

#include <algorithm>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace xla_shmem::shm {
namespace {

// Below the size from which any glibc uses `rep movsb`.
constexpr size_t kMinVectorBytes = 1024;

#if defined(__x86_64__)
constexpr size_t kLine = 64;

void PlainStore(__m128i* to, __m128i vector) { _mm_storeu_si128(to, vector); }
void StreamingStore(__m128i* to, __m128i vector) { _mm_stream_si128(to, vector); }

// Written with intrinsics, because the compiler turns a plain loop into a call of memcpy. StreamingStore needs `to` to
// be a multiple of 16.
template <void (*store)(__m128i*, __m128i)>
void CopyByVectors(char* to, const char* from, size_t bytes) {
  for (; bytes >= kLine; bytes -= kLine, to += kLine, from += kLine) {
    const auto* source = reinterpret_cast<const __m128i*>(from);
    auto* target = reinterpret_cast<__m128i*>(to);
    const __m128i a = _mm_loadu_si128(source), b = _mm_loadu_si128(source + 1), c = _mm_loadu_si128(source + 2),
                  d = _mm_loadu_si128(source + 3);
    store(target, a);
    store(target + 1, b);
    store(target + 2, c);
    store(target + 3, d);
  }
  memcpy(to, from, bytes);
}
#endif

}  // namespace

void Copy(void* to, const void* from, size_t bytes) {
#if defined(__x86_64__)
  if (bytes >= kMinVectorBytes && Is4kAliased(to, from)) {
    CopyByVectors<PlainStore>(static_cast<char*>(to), static_cast<const char*>(from), bytes);
    return;
  }
#endif
  memcpy(to, from, bytes);
}

void CopyStreaming(void* to, const void* from, size_t bytes) {
#if defined(__x86_64__)
  const size_t head = std::min(bytes, (kLine - reinterpret_cast<uintptr_t>(to) % kLine) % kLine);
  memcpy(to, from, head);
  CopyByVectors<StreamingStore>(static_cast<char*>(to) + head, static_cast<const char*>(from) + head, bytes - head);
  _mm_sfence();  // nothing else orders streaming stores, not even a release
#else
  memcpy(to, from, bytes);
#endif
}

}  // namespace xla_shmem::shm
