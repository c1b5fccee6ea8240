#include "xla_patch/bindings/ffi/gpu/decoded_call.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <utility>

#include "xla_patch/bindings/ffi/gpu/call_frame.h"

namespace xla_shmem {
namespace {

namespace ffi = ::xla::ffi;

std::atomic<uint64_t> decoded_calls{0};

// The attributes that DecodedCall depends on, as they lie in the call. What is missing or of another type is empty, and
// an error of the decoding.
struct RawCall {
  template <typename T>
  static T Get(ffi::Dictionary attributes, const char* name) {
    const ffi::ErrorOr<T> read = attributes.get<T>(name);
    return read.has_value() ? *read : T{};
  }
  static ffi::Span<const int64_t> List(ffi::Dictionary attributes, const char* name) {
    return Get<ffi::Span<const int64_t>>(attributes, name);
  }

  explicit RawCall(ffi::Dictionary attributes)
      : operation(Get<int64_t>(attributes, "op")),
        topology(Get<int64_t>(attributes, "topology")),
        module(Get<std::string_view>(attributes, "module")),
        name(Get<std::string_view>(attributes, "name")) {
    if (attributes.contains("pairs")) {
      lists[0] = List(attributes, "pairs");
    } else {
      lists[0] = List(attributes, "group_offsets");
      lists[1] = List(attributes, "groups");
    }
  }

  int64_t operation, topology;
  std::string_view module, name;
  ffi::Span<const int64_t> lists[2] = {{nullptr, 0}, {nullptr, 0}};
};

// A copy of them, and what they say.
struct Entry {
  explicit Entry(const RawCall& raw) : topology(raw.topology), module(raw.module), name(raw.name) {
    for (int i = 0; i < 2; ++i) lists[i].assign(raw.lists[i].begin(), raw.lists[i].end());
  }
  bool IsOf(const RawCall& raw) const {
    const auto is_same = [&](int i) {
      return std::equal(lists[i].begin(), lists[i].end(), raw.lists[i].begin(), raw.lists[i].end());
    };
    return topology == raw.topology && module == raw.module && name == raw.name && is_same(0) && is_same(1);
  }

  int64_t topology;
  std::string module, name;
  std::vector<int64_t> lists[2];
  std::shared_ptr<const DecodedCall> call;
};

class DecodedCallTable {
 public:
  static DecodedCallTable& Get() {
    static auto* const table = new DecodedCallTable;
    return *table;
  }

  // Null if there is none with these attributes.
  std::shared_ptr<const DecodedCall> Find(int32_t device, const RawCall& raw) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = entries_.find({raw.operation, device});
    return found != entries_.end() && found->second.IsOf(raw) ? found->second.call : nullptr;
  }
  void Add(int32_t device, const RawCall& raw, std::shared_ptr<const DecodedCall> call) {
    Entry entry(raw);
    entry.call = std::move(call);
    const std::lock_guard<std::mutex> lock(mutex_);
    entries_.insert_or_assign({raw.operation, device}, std::move(entry));
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<int64_t, int32_t>, Entry> entries_;
};

}  // namespace

Result<std::shared_ptr<const DecodedCall>> DecodeCall(std::optional<CollectiveOp> op, int32_t device,
                                                      ffi::Dictionary attributes) {
  const RawCall raw(attributes);
  if (std::shared_ptr<const DecodedCall> call = DecodedCallTable::Get().Find(device, raw)) return call;
  Result<CallIdentity> identity = ReadRunnableCall(attributes);
  if (!identity.ok()) return identity.status();
  const Result<GpuRuntime*> gpu = FindGpu(device, identity->name);
  if (!gpu.ok()) return gpu.status();
  const auto call = std::make_shared<DecodedCall>(DecodedCall{*std::move(identity), *gpu, 0, {}, {}, {}});
  call->tag = TagOfCall(call->identity, attributes);
  XLA_SHMEM_RETURN_IF_ERROR(ReadPeers(op, attributes, call.get()));
  DecodedCallTable::Get().Add(device, raw, call);
  ++decoded_calls;
  return std::shared_ptr<const DecodedCall>(call);
}

uint64_t DecodedCalls() { return decoded_calls; }

}  // namespace xla_shmem
