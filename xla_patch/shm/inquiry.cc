#include "xla_patch/shm/inquiry.h"

#include <atomic>
#include <chrono>

namespace xla_shmem::shm {
namespace {

// Whether `number` is `other` or comes after it; numbers may wrap around.
bool IsSince(uint32_t number, uint32_t other) { return static_cast<int32_t>(number - other) >= 0; }

}  // namespace

uint32_t Ask(SegmentHeader& header) {
  const uint32_t question = header.inquiry.questions.fetch_add(1, std::memory_order_acq_rel) + 1;
  Ring(header.inquiry_bell);
  return question;
}

std::string AnswerTo(const SegmentHeader& header, uint32_t question) {
  if (!IsSince(header.inquiry.answered.load(std::memory_order_acquire), question)) return "";
  return header.inquiry.answer.Read();
}

uint32_t AwaitQuestion(SegmentHeader& own, uint32_t last) {
  constexpr auto kLimit = std::chrono::seconds(60);
  const uint32_t ticket = PrepareSleep(own.inquiry_bell);
  if (own.inquiry.questions.load(std::memory_order_acquire) == last) Sleep(own.inquiry_bell, ticket, kLimit);
  FinishSleep(own.inquiry_bell);
  return own.inquiry.questions.load(std::memory_order_acquire);
}

void Answer(SegmentHeader& own, uint32_t question, std::string_view text) {
  own.inquiry.answer.Write(text);
  own.inquiry.answered.store(question, std::memory_order_release);
}

void StopAwaiting(SegmentHeader& own) { Ask(own); }

}  // namespace xla_shmem::shm
