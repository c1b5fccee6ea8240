#include "xla_patch/runtime/observe/observer.h"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <utility>

namespace xla_shmem::observe {

std::vector<std::string> Observer::Start(const ObserverOptions& options, int process, const std::vector<int>& processes,
                                         const std::vector<int>& pes) {
  options_ = options;
  process_ = process;
  processes_ = processes;
  std::vector<std::string> warnings;
  if (!options.record_directory.empty()) {
    auto recorder = FlightRecorder::Create(options.record_directory, process, processes, pes);
    if (recorder.ok()) {
      recorder_ = *std::move(recorder);
    } else {
      warnings.push_back("no flight recorder: " + recorder.message());
      options_.record_directory.clear();
    }
  }
  if (!options.trace_file.empty()) {
    auto trace = TraceFile::Open(options.trace_file, process, pes);
    if (trace.ok()) {
      trace_ = *std::move(trace);
    } else {
      warnings.push_back("no trace: " + trace.message());
    }
  }
  return warnings;
}

const RecordedSite* Observer::AddSite(Site site) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (recorder_ != nullptr) recorder_->MarkLoad();
  const auto [entry, is_new] = sites_.try_emplace({site.operation, site.name});
  if (is_new) {
    entry->second.number = recorder_ == nullptr ? 0 : recorder_->AddSite(site);
    entry->second.site = std::move(site);
  }
  return &entry->second;
}

const RecordedSite* Observer::FindSite(uint64_t operation, const std::string& name) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = sites_.find({operation, name});
  return found == sites_.end() ? nullptr : &found->second;
}

Observer::Span Observer::Begin(int pe, const RecordedSite* site, uint64_t execution, uint64_t bytes) {
  Span span;
  span.site = site;
  span.pe = pe;
  span.execution = execution;
  span.bytes = bytes;
  if (!records()) return span;
  span.start_ns = MonotonicNanoseconds();
  if (recorder_ != nullptr) {
    const State state = options_.on_gpu ? State::kEnqueued : State::kStarted;
    span.entry = recorder_->Begin(pe, site->number, execution, bytes, span.start_ns, &span.sequence, state);
  }
  return span;
}

void Observer::MarkWaiting(const Span& span) { FlightRecorder::Set(span.entry, span.sequence, State::kWaiting, 0); }

void Observer::End(const Span& span, std::optional<uint64_t> copied_ns, bool is_inline) {
  if (!records()) return;
  const uint64_t end_ns = MonotonicNanoseconds();
  FlightRecorder::Set(span.entry, span.sequence, State::kDone, end_ns);
  if (!measures_copies()) return;
  Add(*span.site, {span.pe, span.execution, span.bytes, span.start_ns, end_ns, copied_ns, is_inline, std::nullopt});
}

void Observer::EndOnGpu(const Span& span, int track, uint64_t begun_ns, uint64_t ended_ns) {
  FlightRecorder::Set(span.entry, span.sequence, State::kDone, ended_ns);
  if (!measures_copies() || begun_ns == 0) return;
  Add(*span.site, {span.pe, span.execution, span.bytes, begun_ns, ended_ns, std::nullopt, false, track});
}

void Observer::Add(const RecordedSite& site, const Finished& execution) {
  if (options_.statistics) {
    const std::lock_guard<std::mutex> lock(site.mutex);
    site.totals.Add(Totals::Of(execution));
  }
  if (trace_ != nullptr) trace_->Add(site.site, execution);
}

TotalsByCollective Observer::ReadTotals() {
  TotalsByCollective totals;
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& [key, site] : sites_) {
    const std::lock_guard<std::mutex> site_lock(site.mutex);
    // Programs of one name have sites of their own.
    const std::string backend = site.site.on_default_backend ? " (default backend)" : "";
    if (site.totals.calls > 0) totals[{site.site.name, site.site.op + backend}].Add(site.totals);
  }
  return totals;
}

void Observer::FailOnGpu(const Span& span) {
  FlightRecorder::Set(span.entry, span.sequence, State::kFailed, MonotonicNanoseconds());
}

std::string Observer::FailJob(const std::string& why) {
  if (recorder_ == nullptr) return why;
  recorder_->Fail(why);
  return why + PlaceOfRecords();
}

std::string Observer::PlaceOfRecords() const {
  const std::string& directory = options_.record_directory;
  return " (xla-shmem postmortem " + directory.substr(directory.rfind('/') + 1) + " shows every PE)";
}

KnownPairs Observer::ReadPairs() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return pairs_;
}

std::string Observer::FindWrongPairOf(const Site& site) {
  const KnownPairs pairs = ReadPairs();
  for (const auto& [key, other] : pairs) {
    if (other == site.origin.program) return DescribeWrongPair(site.name.substr(0, site.name.find('/')), key.first);
  }
  return FindWrongPair(options_.record_directory, pairs);
}

std::string Observer::AddPair(const PairedProgram& pair) {
  {
    // A program that is loaded from here on is compared with the pair by FindWrongPairOf.
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& [key, recorded] : sites_) {
      const Site& site = recorded.site;
      if (site.origin.form == 0 || site.origin.program != pair.other) continue;
      return DescribeWrongPair(site.name.substr(0, site.name.find('/')), pair.process);
    }
    pairs_.emplace(std::pair(pair.process, pair.program), pair.other);
  }
  pair_(pair.operations);
  return "";
}

std::string Observer::FindMismatch(const Span& span, bool is_late) {
  if (recorder_ == nullptr) return "";
  const std::string& directory = options_.record_directory;
  const auto scope = is_late ? MismatchScope::kAllPrograms : MismatchScope::kProgramsOfOneName;
  const Site& site = span.site->site;
  const KnownPairs pairs = ReadPairs();
  std::string fault = FindWrongPair(directory, pairs);
  if (!fault.empty()) return fault;
  const FoundPrograms found = FindOtherPrograms(directory, processes_, process_, span.pe, site, scope, pairs);
  if (!found.fault.empty()) return found.fault;
  for (const PairedProgram& pair : found.pairs) {
    fault = AddPair(pair);
    if (!fault.empty()) return fault;
  }
  return DescribeOtherBranch(directory, processes_, process_, span.pe, site, span.execution);
}

std::string Observer::Fail(const Span& span, const std::string& why) {
  FlightRecorder::Set(span.entry, span.sequence, State::kFailed, MonotonicNanoseconds());
  if (recorder_ == nullptr) return why;
  std::string text = why;
  const std::string mismatch = FindOtherPrograms(options_.record_directory, processes_, process_, span.pe,
                                                 span.site->site, MismatchScope::kAllPrograms, ReadPairs())
                                   .fault;
  if (!mismatch.empty() && text.find(mismatch) == std::string::npos) text += "; " + mismatch;
  recorder_->Fail(text);
  return text + PlaceOfRecords();
}

void Observer::Report(const std::string& footer) {
  if (options_.statistics && !has_printed_.exchange(true)) {
    const std::string title = "xla-shmem: collectives of process " + std::to_string(process_) + " (XLA_SHMEM_STATS)";
    const std::string table = TotalsTable(title, options_.on_gpu, ReadTotals()) + footer;
    fwrite(table.data(), 1, table.size(), stderr);
  }
  if (trace_ != nullptr) trace_->Flush();
}

void Observer::MarkAtEnd() {
  if (recorder_ != nullptr) recorder_->MarkAtEnd();
}

void Observer::Close(int exit_code) {
  Report();
  if (recorder_ != nullptr) recorder_->Close(exit_code);
}

}  // namespace xla_shmem::observe
