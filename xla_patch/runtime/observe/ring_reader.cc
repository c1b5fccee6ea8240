#include "xla_patch/runtime/observe/ring_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <unordered_map>
#include <utility>

namespace xla_shmem::observe {
namespace {

size_t SizeOf(int file) {
  struct stat status{};
  return fstat(file, &status) == 0 ? static_cast<size_t>(status.st_size) : 0;
}

// Appends the bytes of the file that come next, up to `end`. False if the file has fewer.
bool ReadUntil(size_t end, int file, std::string* content) {
  const size_t begin = content->size();
  if (end > SizeOf(file)) return false;
  content->resize(end);
  return pread(file, content->data() + begin, end - begin, static_cast<off_t>(begin)) ==
         static_cast<ssize_t>(end - begin);
}

// The content of a file of records; "" if it is not whole.
//
// First the entries, and then the number of the sites: a process that begins a collective has recorded all sites of its
// program. Read the other way round, an entry might be of a program that is known by half.
std::string ReadRing(int file) {
  std::string ring;
  if (!ReadUntil(sizeof(RingHeader), file, &ring)) return "";
  const auto header = [&] { return reinterpret_cast<RingHeader*>(ring.data()); };
  if (!ReadUntil(ring.size() + header()->n_pes * FlightRecorder::kPeBytes, file, &ring)) return "";
  uint64_t site_bytes = 0;
  if (pread(file, &site_bytes, sizeof(site_bytes), offsetof(RingHeader, site_bytes)) != sizeof(site_bytes)) return "";
  header()->site_bytes = site_bytes;
  return ReadUntil(ring.size() + site_bytes, file, &ring) ? ring : "";
}

// Of a process; "" if it has no file.
std::string ReadRing(const std::string& directory, int process) {
  const int file = open(FlightRecorder::PathOf(directory, process).c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  if (file < 0) return "";
  std::string ring = ReadRing(file);
  close(file);
  return ring;
}

// Takes the parts of a record that lie behind one another, as far as the record goes.
class Parts {
 public:
  Parts(const std::string& ring, size_t at, size_t end) : ring_(ring), at_(at), end_(end) {}

  std::string Text(size_t bytes) {
    bytes = std::min(bytes, end_ - at_);
    at_ += bytes;
    return ring_.substr(at_ - bytes, bytes);
  }

  template <typename Number>
  std::vector<Number> Numbers(size_t count) {
    std::vector<Number> numbers(std::min(count, (end_ - at_) / sizeof(Number)));
    if (!numbers.empty()) memcpy(numbers.data(), ring_.data() + at_, numbers.size() * sizeof(Number));
    at_ += numbers.size() * sizeof(Number);
    return numbers;
  }

 private:
  const std::string& ring_;
  size_t at_;
  const size_t end_;
};

// The record at `at`, which is complete.
LoadedSite ReadSite(const std::string& ring, size_t at, const SiteRecord& record) {
  Parts parts(ring, at + sizeof(record), at + record.bytes);
  LoadedSite loaded;
  loaded.number = record.number;
  Site& site = loaded.site;
  site.operation = record.operation;
  site.is_pairs = (record.traits & site_trait::kPairs) != 0;
  site.on_default_backend = (record.traits & site_trait::kOnDefaultBackend) != 0;
  site.op = parts.Text(record.op_bytes);
  site.name = parts.Text(record.name_bytes);
  site.source = parts.Text(record.source_bytes);
  site.origin = {record.program, record.form, record.place, record.part, parts.Text(record.contents_bytes), {}, {}};
  for (const uint32_t size : parts.Numbers<uint32_t>(record.n_groups)) {
    const std::vector<uint32_t> members = parts.Numbers<uint32_t>(size);
    site.groups.emplace_back(members.begin(), members.end());
  }
  site.origin.operand_sources = parts.Numbers<uint64_t>(record.n_operand_sources);
  site.origin.branches = parts.Numbers<uint64_t>(record.n_branches);
  return loaded;
}

std::vector<LoadedSite> ReadSites(const std::string& ring, const RingHeader& header) {
  std::vector<LoadedSite> sites;
  size_t at = sizeof(RingHeader) + header.n_pes * FlightRecorder::kPeBytes;
  const size_t end = std::min<size_t>(at + header.site_bytes.load(), ring.size());
  SiteRecord record{};
  for (; end - at >= sizeof(record); at += record.bytes) {
    memcpy(&record, ring.data() + at, sizeof(record));
    // Else another release has written it.
    if (record.bytes > end - at || record.bytes < sizeof(record)) break;
    sites.push_back(ReadSite(ring, at, record));
  }
  return sites;
}

void ReadEntries(const PeHeader* pe, const std::unordered_map<uint32_t, const Site*>& sites, RecordOfProcess* record) {
  const auto* entries = reinterpret_cast<const Entry*>(pe + 1);
  const Begun* oldest = nullptr;
  const auto rank = [](const Begun& of) { return std::pair(!of.is_open(), of.sequence); };
  record->begun.reserve(record->begun.size() + FlightRecorder::kEntries);
  for (const Entry* entry = entries; entry != entries + FlightRecorder::kEntries; ++entry) {
    const auto site = sites.find(entry->site);
    if (entry->sequence.load() == 0 || site == sites.end()) continue;
    record->begun.push_back({static_cast<int>(pe->pe), site->second, entry->execution, entry->bytes,
                             entry->sequence.load(), static_cast<State>(entry->state.load())});
    const Begun& begun = record->begun.back();
    if (!begun.is_open() && begun.state != State::kFailed) continue;
    if (oldest == nullptr || rank(begun) < rank(*oldest)) oldest = &begun;
  }
  if (oldest != nullptr) record->unfinished.push_back(*oldest);
}

}  // namespace

bool RecordOfProcess::HasLoaded(uint64_t operation) const {
  return std::any_of(sites.begin(), sites.end(), [&](const LoadedSite& of) { return of.site.operation == operation; });
}

bool RecordOfProcess::HasBegun(int pe, uint64_t operation, uint64_t execution) const {
  return std::any_of(begun.begin(), begun.end(), [&](const Begun& each) {
    return each.pe == pe && each.execution == execution && each.site->operation == operation;
  });
}

RecordOfProcess ReadRecordOfProcess(const std::string& directory, int process) {
  RecordOfProcess record;
  record.process = process;
  const std::string ring = ReadRing(directory, process);
  if (ring.empty()) return record;
  const auto& header = *reinterpret_cast<const RingHeader*>(ring.data());
  record.several_threads_load = header.several_threads_load.load() != 0;
  record.sites = ReadSites(ring, header);
  std::unordered_map<uint32_t, const Site*> sites;
  for (const LoadedSite& loaded : record.sites) sites.emplace(loaded.number, &loaded.site);
  for (size_t i = 0; i < header.n_pes; ++i) {
    const char* const at = ring.data() + sizeof(RingHeader) + i * FlightRecorder::kPeBytes;
    const auto* const pe = reinterpret_cast<const PeHeader*>(at);
    record.pes.push_back(static_cast<int>(pe->pe));
    ReadEntries(pe, sites, &record);
  }
  return record;
}

bool Has(const std::vector<int>& pes, int pe) { return std::find(pes.begin(), pes.end(), pe) != pes.end(); }

}  // namespace xla_shmem::observe
