#include "file/gguf_writer.h"

#include <bit>
#include <cassert>
#include <functional>
#include <numeric>

namespace martlet::gguf {
namespace {

template <class Number>
void append(std::string& out, Number value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void append(std::string& out, std::string_view text) {
  append(out, uint64_t{text.size()});
  out.append(text);
}

uint64_t padding(uint64_t size, uint64_t alignment) {
  return -size % alignment;
}

}  // namespace

Writer::Writer(uint64_t alignment) : alignment_(alignment) {
  assert(std::has_single_bit(alignment) && alignment >= 8);
  if (alignment != kDefaultAlignment) add(kAlignmentKey, static_cast<uint32_t>(alignment));
}

void Writer::add(std::string_view key, std::string_view text) {
  begin_value(key, kString);
  put(text);
}

void Writer::add_array(std::string_view key, std::span<const std::string_view> texts) {
  begin_array(key, kString, texts.size());
  for (const std::string_view text : texts) put(text);
}

void Writer::add_tensor(std::string_view name, Format format, std::span<const int64_t> shape) {
  assert(!name.empty() && name.size() <= kMaxNameBytes && !shape.empty() && shape.size() <= kMaxDimensions);
  const int64_t elements = std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
  const auto bytes = static_cast<uint64_t>(bytes_of(format, elements));
  tensors_.push_back({std::string(name), {shape.begin(), shape.end()}, format, data_bytes_, bytes});
  data_bytes_ += bytes + padding(bytes, alignment_);
}

std::string Writer::header() const {
  std::string out(kMagic);
  append(out, kVersion);
  append(out, uint64_t{tensors_.size()});
  append(out, keys_);
  out += metadata_;
  for (const Tensor& tensor : tensors_) {
    append(out, std::string_view(tensor.name));
    append(out, static_cast<uint32_t>(tensor.shape.size()));
    for (const int64_t dimension : tensor.shape) append(out, dimension);
    append(out, info(tensor.format).gguf_id);
    append(out, tensor.offset);
  }
  out.append(padding(out.size(), alignment_), '\0');
  return out;
}

Status Writer::write(FunctionRef<Result<Bytes>(size_t)> data, FunctionRef<Status(Bytes)> sink) const {
  const std::string begin = header(), zeros(alignment_, '\0');
  MARTLET_TRY(sink(std::as_bytes(std::span(begin))));
  for (size_t i = 0; i < tensors_.size(); ++i) {
    MARTLET_ASSIGN(const Bytes bytes, data(i));
    assert(bytes.size() == tensors_[i].bytes);
    MARTLET_TRY(sink(bytes));
    MARTLET_TRY(sink(std::as_bytes(std::span(zeros)).first(padding(bytes.size(), alignment_))));
  }
  return {};
}

void Writer::begin_value(std::string_view key, uint32_t type) {
  put(key);
  put(type);
  ++keys_;
}

void Writer::begin_array(std::string_view key, uint32_t type, uint64_t count) {
  begin_value(key, kArray);
  put(type);
  put(count);
}

void Writer::put(std::string_view text) {
  put(uint64_t{text.size()});
  metadata_ += text;
}

}  // namespace martlet::gguf
