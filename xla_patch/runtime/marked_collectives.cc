#include "xla_patch/runtime/marked_collectives.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

namespace xla_shmem {
namespace {

bool IsUnderWay(uint64_t count) { return count % 2 == 1; }

// One execution on one PE, as the progress engine sees it.
class MarkedExecution : public Operation {
 public:
  MarkedExecution(const MarkedCollective* collective, int pe, uint64_t count)
      : collective_(collective), pe_(pe), count_(count) {}

  bool Poll() override { return collective_->Count(pe_) != count_; }
  bool is_of_default_backend() const override { return true; }
  std::set<int> WaitsFor() const override { return collective_->WaitsFor(pe_); }
  void Abandon() override {}
  std::string Describe(const std::set<int>& pes) const override {
    std::string text = collective_->site().op + " " + collective_->label() + " (" +
                       std::to_string(collective_->bytes()) + " bytes) of the default backend on PE " +
                       std::to_string(pe_);
    if (pes.empty()) return text;
    text += pes.size() == 1 ? " waits for PE " : " waits for PEs ";
    for (const int pe : pes) text += (pe == *pes.begin() ? "" : ", ") + std::to_string(pe);
    return text;
  }

 private:
  const MarkedCollective* const collective_;
  const int pe_;
  const uint64_t count_;
};

}  // namespace

MarkedCollective::MarkedCollective(observe::Observer* observer, const observe::RecordedSite* site, std::string label,
                                   uint64_t bytes, const std::vector<int>& local_pes)
    : observer_(observer),
      site_(site),
      label_(std::move(label)),
      bytes_(bytes),
      local_pes_(local_pes),
      progress_(local_pes.size()) {}

void MarkedCollective::Begin(int pe, uint64_t execution) {
  Progress& progress = OfPe(pe);
  const std::lock_guard<std::mutex> lock(progress.mutex);
  progress.span = observer_->Begin(pe, site_, execution, bytes_);
  observer_->MarkWaiting(progress.span);
  const uint64_t count = progress.count.load(std::memory_order_relaxed);
  progress.count.store(count + (IsUnderWay(count) ? 2 : 1), std::memory_order_release);
}

void MarkedCollective::End(int pe) {
  Progress& progress = OfPe(pe);
  const std::lock_guard<std::mutex> lock(progress.mutex);
  const uint64_t count = progress.count.load(std::memory_order_relaxed);
  if (!IsUnderWay(count)) return;
  observer_->End(progress.span, std::nullopt, /*is_inline=*/false);
  progress.count.store(count + 1, std::memory_order_release);
}

std::set<int> MarkedCollective::WaitsFor(int pe) const {
  std::set<int> pes;
  for (const std::vector<int>& group : site().groups) {
    if (std::find(group.begin(), group.end(), pe) != group.end()) pes.insert(group.begin(), group.end());
  }
  for (const int local : local_pes_) {
    if (local == pe || IsUnderWay(Count(local))) pes.erase(local);
  }
  return pes;
}

MarkedCollectives::MarkedCollectives(const shm::Heap* heap, shm::ProgressEngine* engine, observe::Observer* observer,
                                     std::chrono::nanoseconds look_every)
    : heap_(heap), engine_(engine), observer_(observer), look_every_(look_every) {}

void MarkedCollectives::Stop() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stops_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

MarkedCollective* MarkedCollectives::Add(const observe::Site& site, uint64_t bytes) {
  const std::string label = site.source.empty() ? site.name : site.name + " at " + site.source;
  const observe::RecordedSite* const recorded = observer_->AddSite(site);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!thread_.joinable()) thread_ = std::thread([this] { Watch(); });
  const auto [entry, is_new] =
      marked_.try_emplace({site.operation, site.name}, observer_, recorded, label, bytes, heap_->local_pes());
  return &entry->second;
}

void MarkedCollectives::Watch() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!wake_.wait_for(lock, look_every_, [this] { return stops_; })) Look();
}

void MarkedCollectives::Look() {
  for (const auto& [key, collective] : marked_) {
    for (const int pe : collective.local_pes()) {
      const uint64_t count = collective.Count(pe);
      if (!IsUnderWay(count)) continue;
      Seen& seen = seen_[{&collective, pe}];
      if (seen.count != count) {
        seen = {count, false};
      } else if (!seen.is_watched) {
        seen.is_watched = true;
        engine_->Submit(std::make_unique<MarkedExecution>(&collective, pe, count), [](const Status&) {});
      }
    }
  }
}

}  // namespace xla_shmem
