// What the host passes to the device code of collectives. Compiled by the host and by NVRTC, which has no files to
// include (nvrtc.h).
#ifndef XLA_SHMEM_NVSHMEM_GPU_KERNELS_ARGUMENTS_H_
#define XLA_SHMEM_NVSHMEM_GPU_KERNELS_ARGUMENTS_H_

#include <cstdint>

#ifdef __CUDACC__
#define XLA_SHMEM_HOST_DEVICE __host__ __device__
#else
#define XLA_SHMEM_HOST_DEVICE
#endif

namespace xla_shmem::gpu {

using Word = uint64_t;

// The word of a message: the tag of its collective (thunks/gpu/message_tag.h), and the low half of its number.
XLA_SHMEM_HOST_DEVICE constexpr Word TaggedWord(Word tag, Word number) { return tag << 32 | (number & 0xffffffff); }
XLA_SHMEM_HOST_DEVICE constexpr unsigned TagOfWord(Word word) { return static_cast<unsigned>(word >> 32); }
XLA_SHMEM_HOST_DEVICE constexpr unsigned NumberOfWord(Word word) { return static_cast<unsigned>(word); }

// Limits of one launch: its arguments fill at most 4 KiB.
constexpr int kMaxMembers = 128;
constexpr int kMaxParts = 80;

// Threads of a block, at most. Each has at most 64 registers, so two blocks of `move` and four of the other kernels fit
// on a multiprocessor.
constexpr int kMoveThreads = 512;
constexpr int kOtherThreads = 256;

// Parts of a message begin at multiples of it.
constexpr int kPackBytes = 16;

// Slots of a pair in a lane (exchange.cuh), and in packets (packets.cuh). Numbers of messages return after 2^32, which
// is a multiple of both.
constexpr int kLaneSlots = 4;
constexpr int kPacketSlots = 2;

// Messages in packets (packets.cuh): a slot has a head and, for each unit of a message, a pair of packets. A lane that
// reduces keeps what comes from its peers in so much shared memory: two blocks fit on every multiprocessor.
constexpr unsigned kPacketUnit = 8;  // bytes
constexpr int kPacketHeadBytes = 16;
constexpr int kPacketExpansion = 2;
constexpr int kPacketStagingBytes = 16 << 10;

// Words of pinned memory that a kernel and the watchdog share. A kernel stores the first two at once when it begins,
// and the next two when it ends. Two words for each PE follow: kLate and kOtherTag.
enum ProgressWord : int {
  kBegun,      // the kernel in progress, counted from 1
  kOperation,  // its ExchangeArguments::operation in the low half; in the high half the ticket that has begun last
  kEnded,      // the last kernel that has ended
  kFinished,   // the ticket that has ended last in the low half; in the high half how many operations have ended, those
               // in CUDA graphs among them
  kOrder,      // from the watchdog
  kFault,      // why a kernel cannot go on (Fault), 0 if it can
  kFaultPe,    // the PE that its rows, or a message of another collective, go to or come from
  kOfPes,
};
enum PeProgressWord : int {
  kLate,      // 1 if a lane waits for the PE
  kOtherTag,  // the tag that a lane waits for, in the high half, and that of the PE's message
};
XLA_SHMEM_HOST_DEVICE constexpr int PlaceOf(PeProgressWord word, int pe) { return kOfPes + 2 * pe + word; }
constexpr Word kOrderReport = 1;  // lanes that wait say so
constexpr Word kOrderTrap = 2;    // they end with a trap

// Why a kernel cannot go on: the offsets and sizes of a ragged all-to-all are wrong, or another PE is at another
// collective.
enum Fault : int {
  kNoFault,
  kBeyondInput,
  kBeyondOutput,
  kOtherSizes,       // the sender sends other rows than the receiver expects
  kOtherCollective,  // kOtherTag says which
};

// Lanes: block b of a kernel exchanges messages with block b of the other PEs, through slots and words of its own. A
// set of lanes serves one stream. The offsets are those in the arena of every PE (thunks/gpu/arena_layout.h).
struct LaneSet {
  Word arrived;     // the word of the last message in each slot: kLaneSlots for each lane and sender
  Word sent;        // the word of the last message to each PE: one for each lane and PE, of this PE alone. The PE's own
                    // counts what was in the staging memory
  Word slots;       // kLaneSlots for each lane and sender, or with `shares_slots` for each lane
  Word staging;     // kLaneSlots places for each lane, for the NVLink switch (multimem.cuh); 0 if there are none
  Word slot_bytes;  // of a chunk: of a slot, or of a member's part of a place
  bool shares_slots;       // with one sender to each PE; the slots belong to the PE's kernel that runs
  Word packets;            // kPacketSlots for each lane and sender, for messages in packets
  Word packets_sent;       // as `sent`, for messages in packets
  Word packet_slot_bytes;  // 0: there are none
  // In device memory. launches[0]: kernels that have ended; [8]: ended blocks of the kernel that runs; [16]: what
  // kFinished says.
  Word* launches;
  Word* progress;  // pinned
  Word ticket;     // of the operation, 0 for none: grows from one operation to the next
  bool ends;       // whether this is the last kernel of the operation
  int pe;
  int n_pes;
};

// How a kernel uses what arrives.
enum CollectiveShape : int {
  kMove,    // it is the result
  kReduce,  // it is reduced with the own operand
  kTwoShot  // each member reduces its share, and sends the result to all
};

// ROW(elements, type of the device code): those that have sums, products, minima and maxima.
#define XLA_SHMEM_ARITHMETIC_ELEMENTS(ROW) \
  ROW(kF32, float)                         \
  ROW(kF64, double)                        \
  ROW(kF16, F16)                           \
  ROW(kBf16, Bf16)                         \
  ROW(kS8, signed char)                    \
  ROW(kS16, short)                         \
  ROW(kS32, int)                           \
  ROW(kS64, long long)                     \
  ROW(kU8, unsigned char)                  \
  ROW(kU16, unsigned short)                \
  ROW(kU32, unsigned int)                  \
  ROW(kU64, Word)                          \
  ROW(kF8E5M2, F8E5M2)                     \
  ROW(kF8E4M3Fn, F8E4M3Fn)                 \
  ROW(kF8E4M3B11Fnuz, F8E4M3B11Fnuz)       \
  ROW(kF8E5M2Fnuz, F8E5M2Fnuz)             \
  ROW(kF8E4M3Fnuz, F8E4M3Fnuz)             \
  ROW(kF8E4M3, F8E4M3)                     \
  ROW(kF8E3M4, F8E3M4)

// What a reduction's buffers hold. Under and, or and xor, integers and predicates are plain bits. Complex numbers are
// summed as pairs of floats.
enum Elements : int {
  kSumsOfF32,
  kSumsOfF16,
  kSumsOfBf16,
  kBits,
  kProductsOfC64,
  kProductsOfC128,
#define XLA_SHMEM_NAME(elements, T) elements,
  XLA_SHMEM_ARITHMETIC_ELEMENTS(XLA_SHMEM_NAME)
#undef XLA_SHMEM_NAME
};

// A buffer, or one array of it for a member.
struct CollectivePart {
  const char* source;
  char* dest;
  Word bytes;
  Word offset;  // in the message
};

constexpr int kAllMembers = -1;
constexpr int kNoMember = -2;

// Who exchanges messages.
struct ExchangeArguments {
  LaneSet lanes;
  Word operation;
  Word tag;
  int members;
  int me;            // index of this PE
  int send_to;       // index of a member, or kAllMembers, or kNoMember
  int receive_from;  // likewise
  unsigned short pes[kMaxMembers];
  char* arenas[kMaxMembers];
};

// A message is the concatenation of the parts, each padded to 16 bytes. Lane b has bytes [b * of_lane, (b + 1) *
// of_lane) of it; with two shots, of what each member reduces: member j bytes [j * of_member, (j + 1) * of_member).
struct CollectiveArguments : ExchangeArguments {
  Word total;      // bytes of a message
  Word of_member;  // 0 without two shots
  Word of_lane;
  CollectiveShape shape;
  Elements elements;
  int kind;  // ReductionKind
  int parts;
  bool source_has_parts;  // member j gets bytes [j * part.bytes, (j + 1) * part.bytes) of the source
  bool dest_has_parts;    // likewise, from member j
  bool part_of_member;    // part j is what members exchange with member j
  bool keeps_own;         // the message to this PE is copied
  bool clears;            // the results become zeros, because nobody sends them
  bool in_packets;
  char* multicast;  // address of the arenas of all PEs at once; null if the collective does not use the switch
  CollectivePart part[kMaxParts];
};

// A half of an overlapping permute (split.cuh): the kernel of its start or of its done. The offsets are those in the
// arena of the PE that has the memory.
struct SplitArguments : CollectiveArguments {
  Word number;        // of the message, from its sender to its receiver
  Word before;        // of the message that its slot had before
  int blocks_before;  // that carried it, 0 if there was none
  Word slot;          // at the receiver
  Word arrived;       // at the receiver, a word for each block: the message that it put into the slot, with its tag
  Word consumed;      // at the sender, likewise: the number of the message that it took from the slot
};

// What a ragged all-to-all sends: slice s of what goes to member m is `send_sizes[i]` rows from row `input_offsets[i]`
// of the input on, i = m * slices + s. They go to row `output_offsets[i]` of that member's output. `receive_sizes[i]`
// rows come from member m in the same way. Rows of the output that nobody sends are those of the operand.
struct RaggedRows {
  const char* input;
  Word row_bytes;
  Word input_rows;
  Word output_rows;
  int slices;  // for each member
  // In device memory.
  const Word* input_offsets;
  const Word* send_sizes;
  const Word* output_offsets;
  const Word* receive_sizes;
};
struct RaggedArguments : ExchangeArguments, RaggedRows {
  char* output;
};

}  // namespace xla_shmem::gpu

#endif  // XLA_SHMEM_NVSHMEM_GPU_KERNELS_ARGUMENTS_H_
