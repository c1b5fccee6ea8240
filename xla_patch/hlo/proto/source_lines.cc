#include "xla_patch/hlo/proto/source_lines.h"

#include "xla_patch/hlo/proto/field_numbers.h"
#include "xla_patch/hlo/proto/wire.h"

namespace xla_shmem::hlo {
namespace {

// Element `number` of a list that counts from 1; a default one where there is none.
template <typename T>
T At(const std::vector<T>& list, int64_t number) {
  return number >= 1 && number <= static_cast<int64_t>(list.size()) ? list[number - 1] : T();
}

// The value of an integer field, 0 if it is missing.
int64_t ReadInt(std::string_view proto, uint32_t number) {
  int64_t value = 0;
  FieldReader reader(proto);
  for (Field field; reader.Next(&field);) value = field.number == number ? field.AsInt() : value;
  return value;
}

}  // namespace

SourceLines::SourceLines(std::string_view proto) {
  FieldReader reader(proto);
  for (Field field; reader.Next(&field);) {
    if (field.number == StackFrameIndexField::kFileNames) {
      files_.push_back(field.bytes);
    } else if (field.number == StackFrameIndexField::kFileLocations) {
      locations_.push_back(
          {ReadInt(field.bytes, FileLocationField::kFileNameId), ReadInt(field.bytes, FileLocationField::kLine)});
    } else if (field.number == StackFrameIndexField::kStackFrames) {
      frames_.push_back(ReadInt(field.bytes, StackFrameField::kFileLocationId));
    }
  }
}

SourceLine SourceLines::OfFrame(int64_t frame) const {
  const Location location = At(locations_, At(frames_, frame));
  return {At(files_, location.file), location.line};
}

}  // namespace xla_shmem::hlo
