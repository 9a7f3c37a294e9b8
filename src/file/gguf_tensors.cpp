#include "file/gguf_tensors.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/checked.h"
#include "file/gguf.h"

namespace martlet::gguf {
namespace {

// No file system holds more. Half of what an int64_t does, so that sizes can be added and padded without further
// checks.
constexpr uint64_t kMostBytes = std::numeric_limits<int64_t>::max() / 2;

// `alignment` is a power of two.
Checked padded(Checked size, uint64_t alignment) {
  const auto value = size.get();
  return value ? size + Checked(-*value % alignment) : size;
}

class TensorReader {
 public:
  TensorReader(Cursor& cursor, uint64_t alignment) : cursor_(cursor), alignment_(alignment) {}

  Status read(NamedTensor& out, uint64_t& offset) {
    const size_t begin = cursor_.offset();
    uint32_t dimensions = 0, format = 0;
    if (!cursor_.read(out.name) || !cursor_.read(dimensions)) return cursor_.error();
    if (out.name.empty() || out.name.size() > kMaxNameBytes)
      return cursor_.error("bad_tensor", "a tensor's name must have 1 to 63 bytes", begin);
    if (dimensions > kMaxDimensions) return cursor_.error("bad_tensor", "a tensor has more than 4 dimensions", begin);
    out.view.shape = {1, 1, 1, 1};
    for (uint32_t i = 0; i < dimensions; ++i) {
      if (!cursor_.read(out.view.shape[i])) return cursor_.error();
    }
    if (!cursor_.read(format) || !cursor_.read(offset)) return cursor_.error();
    const auto known = format_from_gguf(format);
    if (!known) return cursor_.error("bad_tensor", "a tensor is stored in an unknown format", begin);
    out.view.format = *known;
    return add_size(out.view, begin);
  }

  // Where the data section starts, once every tensor was read.
  Result<size_t> data_begin() const {
    const Checked begin = padded(Checked(cursor_.offset()), alignment_);
    if (!(begin + total_).within(kMostBytes)) return overflow(cursor_.offset());
    return *begin.get();
  }

 private:
  Status add_size(const TensorView& view, size_t begin) {
    if (std::any_of(view.shape.begin(), view.shape.end(), [](int64_t n) { return n <= 0; }))
      return cursor_.error("bad_shape", "a dimension of a tensor is zero or negative", begin);
    const FormatInfo& format = info(view.format);
    const Checked elements = std::accumulate(view.shape.begin(), view.shape.end(), Checked(uint64_t{1}),
                                             [](Checked product, int64_t n) { return product * Checked(uint64_t(n)); });
    if (!elements.within(kMostBytes)) return overflow(begin);
    if (view.shape[0] % format.block_elements != 0)
      return cursor_.error("bad_shape", "a tensor's rows are not a whole number of blocks of its format", begin);
    const Checked bytes = Checked(*elements.get() / format.block_elements) * Checked(format.block_bytes);
    total_ = total_ + padded(bytes, alignment_);
    return total_.within(kMostBytes) ? Status() : overflow(begin);
  }

  Error overflow(size_t begin) const {
    return cursor_.error("size_overflow", "the sizes of the tensors overflow; the file is damaged", begin);
  }

  Cursor& cursor_;
  uint64_t alignment_;
  Checked total_{uint64_t{0}};
};

Status check_apart(const Cursor& cursor, const std::vector<NamedTensor>& tensors) {
  std::vector<const NamedTensor*> by_place(tensors.size());
  std::transform(tensors.begin(), tensors.end(), by_place.begin(), [](const NamedTensor& t) { return &t; });
  const auto before = [](const NamedTensor* a, const NamedTensor* b) { return a->view.data < b->view.data; };
  std::sort(by_place.begin(), by_place.end(), before);
  for (size_t i = 1; i < by_place.size(); ++i) {
    const TensorView& previous = by_place[i - 1]->view;
    if (by_place[i]->view.data < previous.data + previous.bytes())
      return cursor.error("tensor_out_of_file", "two tensors overlap", by_place[i]->name);
  }
  return {};
}

}  // namespace

Status read_tensors(Cursor& cursor, uint64_t count, uint64_t alignment, std::span<const std::byte> bytes,
                    std::vector<NamedTensor>& out) {
  TensorReader reader(cursor, alignment);
  out.resize(count);
  std::vector<uint64_t> offsets(count);
  for (size_t i = 0; i < count; ++i) MARTLET_TRY(reader.read(out[i], offsets[i]));
  MARTLET_ASSIGN(const size_t begin, reader.data_begin());
  const auto data = bytes.subspan(std::min(begin, bytes.size()));
  for (size_t i = 0; i < count; ++i) {
    TensorView& view = out[i].view;
    if (offsets[i] % alignment != 0)
      return cursor.error("tensor_out_of_file", "a tensor does not start at a multiple of the alignment", out[i].name);
    const auto size = static_cast<uint64_t>(view.bytes());
    if (offsets[i] > data.size() || size > data.size() - offsets[i])
      return cursor.error("tensor_out_of_file",
                          "a tensor ends past the end of the file: it was cut short; fetch it again", out[i].name);
    view.data = data.data() + offsets[i];
  }
  return check_apart(cursor, out);
}

}  // namespace martlet::gguf
