// Invariants that are always checked, in release builds too. They cost a comparison where the numbers are at hand
// anyway, and a broken one would end in wrong data.
//
// They state what the code of this process has to keep. What a peer, a user or the system may do wrong is an error with
// a Status instead.
#ifndef XLA_SHMEM_TYPES_INVARIANT_H_
#define XLA_SHMEM_TYPES_INVARIANT_H_

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <type_traits>

namespace xla_shmem {

// A number or a pointer, to be printed.
template <typename T>
long long AsNumber(T value) {
  if constexpr (std::is_null_pointer_v<T>) {
    return 0;
  } else if constexpr (std::is_pointer_v<T>) {
    return static_cast<long long>(reinterpret_cast<intptr_t>(value));
  } else {
    return static_cast<long long>(value);
  }
}

[[noreturn]] __attribute__((noinline, cold)) inline void EndForBrokenInvariant(const char* file, int line,
                                                                               const char* invariant, long long left,
                                                                               long long right) {
  fprintf(stderr, "xla_shmem: %s:%d: broken invariant: %s, with %lld and %lld; please report this\n", file, line,
          invariant, left, right);
  abort();
}

// Ends the process with place and values unless `left relation right`, as in XLA_SHMEM_INVARIANT(used, <=, total).
#define XLA_SHMEM_INVARIANT(left, relation, right)                                           \
  do {                                                                                       \
    const auto xla_shmem_left = (left);                                                      \
    const auto xla_shmem_right = (right);                                                    \
    if (__builtin_expect(!(xla_shmem_left relation xla_shmem_right), 0)) {                   \
      ::xla_shmem::EndForBrokenInvariant(__FILE__, __LINE__, #left " " #relation " " #right, \
                                         ::xla_shmem::AsNumber(xla_shmem_left),              \
                                         ::xla_shmem::AsNumber(xla_shmem_right));            \
    }                                                                                        \
  } while (false)

}  // namespace xla_shmem

#endif  // XLA_SHMEM_TYPES_INVARIANT_H_
