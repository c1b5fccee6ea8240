#include "xla_patch/assigner/collective_spec.h"

#include <algorithm>
#include <unordered_map>

namespace xla_shmem {
namespace {

GroupCount CountConnected(const std::vector<std::pair<int64_t, int64_t>>& pairs) {
  std::unordered_map<int64_t, int64_t> parent;
  const auto root = [&](int64_t device) {
    parent.emplace(device, device);
    while (parent[device] != device) device = parent[device] = parent[parent[device]];
    return device;
  };
  for (const auto& [source, target] : pairs) {
    const int64_t from = root(source);
    parent[from] = root(target);
  }
  GroupCount count;
  std::unordered_map<int64_t, int64_t> sizes;
  for (const auto& entry : std::unordered_map<int64_t, int64_t>(parent)) {
    count.largest = std::max(count.largest, ++sizes[root(entry.first)]);
  }
  count.number = static_cast<int64_t>(sizes.size());
  return count;
}

}  // namespace

int64_t DeviceGroups::common_size() const {
  const int64_t first = size() > 0 ? offsets[1] - offsets[0] : 0;
  for (int64_t group = 1; group < size(); ++group) {
    if (offsets[group + 1] - offsets[group] != first) return 0;
  }
  return first;
}

GroupCount CountGroups(const CollectiveSpec& spec) {
  if (UsesPairs(spec.op)) return CountConnected(spec.pairs);
  GroupCount count{spec.groups.size(), 0};
  for (int64_t i = 0; i < count.number; ++i) {
    count.largest = std::max(count.largest, spec.groups.offsets[i + 1] - spec.groups.offsets[i]);
  }
  return count;
}

}  // namespace xla_shmem
