#ifndef XLA_SHMEM_SHM_SHARED_TEXT_H_
#define XLA_SHMEM_SHM_SHARED_TEXT_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace xla_shmem::shm {

// A short text in shared memory, which one thread at a time writes and any process reads (a seqlock). All zeros are
// the empty text.
struct SharedText {
  static constexpr size_t kBytes = 256;  // longer texts are cut

  void Write(std::string_view text) {
    std::array<char, kBytes> bytes{};
    memcpy(bytes.data(), text.data(), std::min(text.size(), kBytes - 1));
    // A reader that sees one of the words below also sees that the text is being written.
    const uint64_t before = version.load(std::memory_order_relaxed);
    version.exchange(before + 1, std::memory_order_acq_rel);
    for (size_t i = 0; i < kBytes / sizeof(uint64_t); ++i) {
      uint64_t word;
      memcpy(&word, bytes.data() + i * sizeof(word), sizeof(word));
      words[i].store(word, std::memory_order_release);
    }
    version.store(before + 2, std::memory_order_release);
  }

  // "" if it is just being written.
  std::string Read() const {
    std::array<char, kBytes> bytes{};
    const uint64_t before = version.load(std::memory_order_acquire);
    for (size_t i = 0; i < kBytes / sizeof(uint64_t); ++i) {
      const uint64_t word = words[i].load(std::memory_order_acquire);
      memcpy(bytes.data() + i * sizeof(word), &word, sizeof(word));
    }
    bytes.back() = '\0';
    return before % 2 == 0 && version.load(std::memory_order_relaxed) == before ? std::string(bytes.data()) : "";
  }

  std::atomic<uint64_t> version;  // odd while it is being written
  std::atomic<uint64_t> words[kBytes / sizeof(uint64_t)];
};

}  // namespace xla_shmem::shm

#endif  // XLA_SHMEM_SHM_SHARED_TEXT_H_
