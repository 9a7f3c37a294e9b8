#include "file/gguf_metadata.h"

#include <algorithm>
#include <bit>

#include "file/gguf.h"

namespace martlet::gguf {
namespace {

// Tensors are read as floats and words where they lie, hence 8; the upper bound keeps padding below a megabyte.
constexpr uint64_t kLeastAlignment = 8, kMostAlignment = 1 << 20;

class MetadataReader {
 public:
  explicit MetadataReader(Cursor& cursor) : cursor_(cursor) {}

  Status read(std::pair<std::string_view, Metadata>& out) {
    const size_t begin = cursor_.offset();
    uint32_t type = 0;
    if (!cursor_.read(out.first) || !cursor_.read(type)) return cursor_.error();
    if (out.first.empty()) return cursor_.error("duplicate_name", "a metadata key is empty", begin);
    MARTLET_TRY(read_value(type, out.second));
    return out.first == kAlignmentKey ? take_alignment(type, out.second, begin) : Status();
  }

  uint64_t alignment() const { return alignment_; }

 private:
  Status read_value(uint32_t type, Metadata& out) {
    if (type == kString) return read_string(out);
    if (type == kArray) return read_array(out);
    const Number* number = find_number(type);
    if (!number) return cursor_.error("bad_kv", "a metadata value has an unknown type", cursor_.offset() - sizeof type);
    return (this->*number->read)(out);
  }

  Status read_string(Metadata& out) {
    std::string_view text;
    if (!cursor_.read(text)) return cursor_.error();
    out = text;
    return {};
  }

  template <class Stored, class Kept>
  Status read_number(Metadata& out) {
    const size_t begin = cursor_.offset();
    Stored value = 0;
    if (!cursor_.read(value)) return cursor_.error();
    if (std::is_same_v<Kept, bool> && value > 1) return bad_boolean(begin);
    out = static_cast<Kept>(value);
    return {};
  }

  Status read_array(Metadata& out) {
    const size_t begin = cursor_.offset();
    uint32_t type = 0;
    uint64_t count = 0;
    if (!cursor_.read(type) || !cursor_.read(count)) return cursor_.error();
    if (type == kArray) return cursor_.error("bad_kv", "arrays of arrays are not part of a model", begin);
    if (type == kString) return read_strings(count, out);
    const Number* number = find_number(type);
    if (!number) return cursor_.error("bad_kv", "an array's elements have an unknown type", begin);
    NumberArray array{number->type, {}, count};
    if (!cursor_.read_bytes(count, number->bytes, array.bytes)) return cursor_.error();
    if (array.type == NumberArray::Type::boolean &&
        std::any_of(array.bytes.begin(), array.bytes.end(), [](std::byte b) { return b > std::byte{1}; }))
      return bad_boolean(begin);
    out = array;
    return {};
  }

  Status read_strings(uint64_t count, Metadata& out) {
    if (!cursor_.holds(count, sizeof(uint64_t))) return cursor_.error();
    array_strings_ += count;  // cannot wrap: each count is smaller than the file
    if (array_strings_ > kMaxArrayStrings)
      return cursor_.error("too_many_entries", "the arrays hold more strings than any model has", cursor_.offset());
    StringArray strings(count);
    for (std::string_view& text : strings) {
      if (!cursor_.read(text)) return cursor_.error();
    }
    out = std::move(strings);
    return {};
  }

  Status take_alignment(uint32_t type, const Metadata& value, size_t begin) {
    const uint64_t* alignment = type == kAlignmentType ? std::get_if<uint64_t>(&value) : nullptr;
    if (!alignment || !std::has_single_bit(*alignment) || *alignment < kLeastAlignment || *alignment > kMostAlignment)
      return cursor_.error("bad_alignment", "general.alignment must be a u32, a power of two from 8 to 1048576", begin);
    alignment_ = *alignment;
    return {};
  }

  Error bad_boolean(size_t begin) const {
    return cursor_.error("bad_kv", "a boolean is neither 0 nor 1; the file is damaged", begin);
  }

  struct Number {
    uint32_t id;
    NumberArray::Type type;
    uint32_t bytes;
    Status (MetadataReader::*read)(Metadata&);
  };

  static const Number* find_number(uint32_t id) {
    static constexpr Number kNumbers[] = {
#define MARTLET_GGUF_NUMBER(name, id, stored, kept) \
  {id, NumberArray::Type::name, sizeof(stored), &MetadataReader::read_number<stored, kept>},
#include "file/gguf_numbers.def"
#undef MARTLET_GGUF_NUMBER
    };
    const auto* found =
        std::find_if(std::begin(kNumbers), std::end(kNumbers), [&](const Number& n) { return n.id == id; });
    return found == std::end(kNumbers) ? nullptr : found;
  }

  static constexpr uint32_t kAlignmentType = 4;  // u32

  Cursor& cursor_;
  uint64_t alignment_ = kDefaultAlignment;
  uint64_t array_strings_ = 0;
};

}  // namespace

Result<uint64_t> read_metadata(Cursor& cursor, uint64_t count, decltype(FileContents::metadata)& out) {
  MetadataReader reader(cursor);
  out.resize(count);
  for (auto& entry : out) MARTLET_TRY(reader.read(entry));
  return reader.alignment();
}

}  // namespace martlet::gguf
