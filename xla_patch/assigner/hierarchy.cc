#include "xla_patch/assigner/hierarchy.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

namespace xla_shmem {
namespace {

// The devices of one group in one domain, and their places in the group.
struct Domain {
  std::vector<int64_t> devices;
  std::vector<int64_t> positions;
};

std::vector<Domain> DomainsOf(const DeviceGroups& groups, int64_t group, const Topology& topology) {
  std::vector<Domain> domains;
  std::map<int32_t, size_t> index_of;
  const int64_t first = groups.offsets[group];
  for (int64_t i = first; i < groups.offsets[group + 1]; ++i) {
    const auto [entry, is_new] = index_of.emplace(topology.Find(groups.devices[i])->nvlink_domain, domains.size());
    if (is_new) domains.emplace_back();
    domains[entry->second].devices.push_back(groups.devices[i]);
    domains[entry->second].positions.push_back(i - first);
  }
  return domains;
}

void Append(const std::vector<int64_t>& devices, DeviceGroups* groups) {
  groups->devices.insert(groups->devices.end(), devices.begin(), devices.end());
  groups->offsets.push_back(static_cast<int64_t>(groups->devices.size()));
}

void AppendLocal(const std::vector<Domain>& domains, Hierarchy* hierarchy) {
  for (const Domain& domain : domains) {
    Append(domain.devices, &hierarchy->local);
    hierarchy->positions.insert(hierarchy->positions.end(), domain.positions.begin(), domain.positions.end());
  }
}

Result<Hierarchy> DividePairs(const CollectiveSpec& spec, const Topology& topology) {
  Hierarchy hierarchy;
  std::set<int32_t> domains;
  for (const auto& [source, target] : spec.pairs) {
    const int32_t from = topology.Find(source)->nvlink_domain;
    const int32_t to = topology.Find(target)->nvlink_domain;
    (from == to ? hierarchy.local_pairs : hierarchy.across_pairs).emplace_back(source, target);
    domains.insert({from, to});
  }
  hierarchy.num_domains = static_cast<int64_t>(domains.size());
  if (hierarchy.local_pairs.empty()) return Status::Error("every pair crosses NVLink domains");
  return hierarchy;
}

Result<Hierarchy> DivideBroadcast(const CollectiveSpec& spec, const Topology& topology) {
  Hierarchy hierarchy;
  for (int64_t group = 0; group < spec.groups.size(); ++group) {
    const std::vector<Domain> domains = DomainsOf(spec.groups, group, topology);
    hierarchy.num_domains = std::max(hierarchy.num_domains, static_cast<int64_t>(domains.size()));
    for (const Domain& domain : domains) {
      hierarchy.local_size = std::max(hierarchy.local_size, static_cast<int64_t>(domain.devices.size()));
    }
    AppendLocal(domains, &hierarchy);
  }
  return hierarchy;
}

std::string Shape(int64_t domains, int64_t size) { return std::to_string(domains) + " × " + std::to_string(size); }

Result<Hierarchy> DivideGroups(const CollectiveSpec& spec, const Topology& topology) {
  Hierarchy hierarchy;
  for (int64_t group = 0; group < spec.groups.size(); ++group) {
    const std::vector<Domain> domains = DomainsOf(spec.groups, group, topology);
    const auto num_domains = static_cast<int64_t>(domains.size());
    const auto local_size = domains.empty() ? 0 : static_cast<int64_t>(domains[0].devices.size());
    for (const Domain& domain : domains) {
      if (const auto size = static_cast<int64_t>(domain.devices.size()); size != local_size) {
        return Status::Error("group " + std::to_string(group) + " has " + std::to_string(local_size) + " and " +
                             std::to_string(size) + " devices in two of its NVLink domains");
      }
    }
    if (group == 0) {
      hierarchy.num_domains = num_domains;
      hierarchy.local_size = local_size;
    } else if (num_domains != hierarchy.num_domains || local_size != hierarchy.local_size) {
      return Status::Error("groups 0 and " + std::to_string(group) + " are " +
                           Shape(hierarchy.num_domains, hierarchy.local_size) + " and " +
                           Shape(num_domains, local_size) + " NVLink domains × devices");
    }
    AppendLocal(domains, &hierarchy);
    for (int64_t index = 0; index < local_size; ++index) {
      std::vector<int64_t> devices;
      devices.reserve(domains.size());
      for (const Domain& domain : domains) devices.push_back(domain.devices[index]);
      Append(devices, &hierarchy.across);
    }
  }
  if (hierarchy.local_size < 2) return Status::Error(kAloneInDomain);
  return hierarchy;
}

Result<Hierarchy> DivideAs(Division division, const CollectiveSpec& spec, const Topology& topology) {
  switch (division) {
    case Division::kPermute:
      return DividePairs(spec, topology);
    case Division::kBroadcast:
      return DivideBroadcast(spec, topology);
    case Division::kAllReduce:
    case Division::kAllGather:
    case Division::kReduceScatter:
    case Division::kAllToAll:
      break;
  }
  return DivideGroups(spec, topology);
}

}  // namespace

std::optional<GroupOrder> OrderOf(const Hierarchy& hierarchy) {
  const int64_t domains = hierarchy.num_domains, local = hierarchy.local_size;
  bool by_domain = true, by_index = true;
  for (size_t i = 0; i < hierarchy.positions.size(); ++i) {
    const int64_t place = static_cast<int64_t>(i) % (domains * local);
    by_domain = by_domain && hierarchy.positions[i] == place;
    by_index = by_index && hierarchy.positions[i] == place % local * domains + place / local;
  }
  if (by_domain) return GroupOrder::kByDomain;
  return by_index ? std::make_optional(GroupOrder::kByIndex) : std::nullopt;
}

Result<Hierarchy> DivideByDomain(const CollectiveSpec& spec, const Topology& topology) {
  const CollectiveOpInfo& info = InfoOf(spec.op);
  if (!info.division.has_value()) {
    return Status::Error(std::string("a ") + info.name + " is not divided, because " + info.undivided);
  }
  Result<Hierarchy> hierarchy = DivideAs(*info.division, spec, topology);
  if (hierarchy.ok()) hierarchy->division = *info.division;
  return hierarchy;
}

}  // namespace xla_shmem
