#include "xla_patch/types/stable_hash.h"

namespace xla_shmem {
namespace {

// Multiply-and-fold, as in wyhash (https://github.com/wangyi-fudan/wyhash, public domain): 8 bytes a step.
__extension__ typedef unsigned __int128 Wide;

uint64_t Fold(uint64_t a, uint64_t b) {
  const Wide product = Wide{a} * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

// Byte order is spelled out so that all machines agree; compilers turn it into one load.
uint64_t Load(const char* bytes, size_t size) {
  uint64_t value = 0;
  for (size_t i = 0; i < size; ++i) value |= uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  return value;
}

}  // namespace

uint64_t HashInt(uint64_t hash, uint64_t value) { return Fold(hash ^ 0xa0761d6478bd642f, value ^ 0xe7037ed1a0b428db); }

uint64_t HashBytes(uint64_t hash, std::string_view bytes) {
  hash = HashInt(hash, bytes.size());
  size_t position = 0;
  for (; position + 8 <= bytes.size(); position += 8) hash = HashInt(hash, Load(bytes.data() + position, 8));
  if (position < bytes.size()) hash = HashInt(hash, Load(bytes.data() + position, bytes.size() - position));
  return hash;
}

}  // namespace xla_shmem
