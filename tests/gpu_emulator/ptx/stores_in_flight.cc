#include "ptx/stores_in_flight.h"

#include <cstring>

#include "ptx/resident_block.h"

namespace ptx {
namespace {

template <typename T>
void StoreWhole(char* to, uint64_t value) {
  __atomic_store_n(reinterpret_cast<T*>(to), static_cast<T>(value), __ATOMIC_SEQ_CST);
}

}  // namespace

void StoresInFlight::Add(char* to, uint64_t value, size_t bytes, int thread) {
  DeliverEach([&](const Store& store) { return store.to < to + bytes && to < store.to + store.bytes; });
  if (stores_.size() == kMost) DeliverAt(random_.Below(kMost));
  stores_.push_back({to, value, static_cast<uint8_t>(bytes), false, thread});
}

void StoresInFlight::Publish() {
  for (Store& store : stores_) store.published = true;
}

void StoresInFlight::Release(int thread) {
  DeliverEach([&](const Store& store) { return store.published || store.thread == thread; });
}

void StoresInFlight::DeliverSome() {
  DeliverEach([&](const Store& /*store*/) { return random_.Below(4) == 0; });
}

void StoresInFlight::DeliverAll() {
  DeliverEach([](const Store& /*store*/) { return true; });
}

template <typename Which>
void StoresInFlight::DeliverEach(Which which) {
  for (size_t i = 0; i < stores_.size();) {
    if (which(stores_[i])) {
      DeliverAt(i);
    } else {
      ++i;
    }
  }
}

void StoresInFlight::DeliverAt(size_t index) {
  const Store store = stores_[index];
  stores_.erase(stores_.begin() + static_cast<ptrdiff_t>(index));
  switch (store.bytes) {
    case 1:
      return StoreWhole<uint8_t>(store.to, store.value);
    case 2:
      return StoreWhole<uint16_t>(store.to, store.value);
    case 4:
      return StoreWhole<uint32_t>(store.to, store.value);
    default:
      return StoreWhole<uint64_t>(store.to, store.value);
  }
}

}  // namespace ptx
