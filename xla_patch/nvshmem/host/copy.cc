#include "xla_patch/nvshmem/host/copy.h"

#include <string.h>

#include <algorithm>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace xla_shmem::host {
namespace {

// Less than any glibc uses `rep movsb` for.
constexpr size_t kLeastBytes = 1024;

#if defined(__x86_64__)
// A plain loop would become a call of memcpy.
void CopyByVectors(char* to, const char* from, size_t bytes) {
  constexpr size_t kBlock = 64;
  for (; bytes >= kBlock; bytes -= kBlock, to += kBlock, from += kBlock) {
    const auto* source = reinterpret_cast<const __m128i*>(from);
    auto* target = reinterpret_cast<__m128i*>(to);
    const __m128i a = _mm_loadu_si128(source), b = _mm_loadu_si128(source + 1), c = _mm_loadu_si128(source + 2),
                  d = _mm_loadu_si128(source + 3);
    _mm_storeu_si128(target, a);
    _mm_storeu_si128(target + 1, b);
    _mm_storeu_si128(target + 2, c);
    _mm_storeu_si128(target + 3, d);
  }
  memcpy(to, from, bytes);
}

void StreamByVectors(char* to, const char* from, size_t bytes) {
  constexpr size_t kLine = 64;
  const size_t head = std::min(bytes, (kLine - reinterpret_cast<uintptr_t>(to) % kLine) % kLine);
  memcpy(to, from, head);
  for (to += head, from += head, bytes -= head; bytes >= kLine; bytes -= kLine, to += kLine, from += kLine) {
    const auto* source = reinterpret_cast<const __m128i*>(from);
    auto* target = reinterpret_cast<__m128i*>(to);
    const __m128i a = _mm_loadu_si128(source), b = _mm_loadu_si128(source + 1), c = _mm_loadu_si128(source + 2),
                  d = _mm_loadu_si128(source + 3);
    _mm_stream_si128(target, a);
    _mm_stream_si128(target + 1, b);
    _mm_stream_si128(target + 2, c);
    _mm_stream_si128(target + 3, d);
  }
  memcpy(to, from, bytes);
  _mm_sfence();  // such stores are ordered by nothing else, releases included
}
#endif

}  // namespace

void Copy(void* to, const void* from, size_t bytes) {
#if defined(__x86_64__)
  if (bytes >= kLeastBytes && IsAskew(to, from)) {
    CopyByVectors(static_cast<char*>(to), static_cast<const char*>(from), bytes);
    return;
  }
#endif
  memcpy(to, from, bytes);
}

void CopyPastCaches(void* to, const void* from, size_t bytes) {
#if defined(__x86_64__)
  StreamByVectors(static_cast<char*>(to), static_cast<const char*>(from), bytes);
#else
  memcpy(to, from, bytes);
#endif
}

}  // namespace xla_shmem::host
