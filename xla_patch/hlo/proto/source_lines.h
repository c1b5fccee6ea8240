#ifndef XLA_SHMEM_HLO_PROTO_SOURCE_LINES_H_
#define XLA_SHMEM_HLO_PROTO_SOURCE_LINES_H_

#include <cstdint>
#include <string_view>
#include <vector>

namespace xla_shmem::hlo {

// A place in the user's program. Views point into the module.
struct SourceLine {
  std::string_view file;  // empty if the module does not name it
  int64_t line = 0;
};

// A module's xla.StackFrameIndexProto. Releases that write one leave file and line out of an instruction's metadata and
// put the number of the innermost frame there. For reports only, so unreadable parts are ignored.
class SourceLines {
 public:
  explicit SourceLines(std::string_view proto);

  // Frames count from 1; 0 is none.
  SourceLine OfFrame(int64_t frame) const;

 private:
  struct Location {
    int64_t file = 0;  // counts from 1 too
    int64_t line = 0;
  };
  std::vector<std::string_view> files_;
  std::vector<Location> locations_;
  std::vector<int64_t> frames_;  // the location of each, which counts from 1
};

}  // namespace xla_shmem::hlo

#endif  // XLA_SHMEM_HLO_PROTO_SOURCE_LINES_H_
