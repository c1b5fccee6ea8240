// One process asks another what it does. The question costs nothing until somebody asks: a thread of the other process
// sleeps on a bell of its own, and a process without such a thread gives no answer.
#ifndef XLA_SHMEM_SHM_INQUIRY_H_
#define XLA_SHMEM_SHM_INQUIRY_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "xla_patch/shm/segment.h"

namespace xla_shmem::shm {

// Asks the owner of the segment. Returns the number of the question.
uint32_t Ask(SegmentHeader& header);
// The answer to the question or to a later one; "" if there is none yet.
std::string AnswerTo(const SegmentHeader& header, uint32_t question);

// Of the process that is asked, and of one thread.
//
// Sleeps until there is a question after number `last`, or a time limit of some seconds has passed. Returns the number
// of the newest question.
uint32_t AwaitQuestion(SegmentHeader& own, uint32_t last);
void Answer(SegmentHeader& own, uint32_t question, std::string_view text);
// Lets AwaitQuestion return, also if it has not begun to sleep. The caller has set a word by which its thread then
// knows that nobody has asked.
void StopAwaiting(SegmentHeader& own);

}  // namespace xla_shmem::shm

#endif  // XLA_SHMEM_SHM_INQUIRY_H_
