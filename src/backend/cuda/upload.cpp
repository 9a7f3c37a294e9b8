#include "backend/cuda/upload.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <thread>

#include "backend/cuda/kernels/shuffle.h"
#include "tensor/dequantize.h"

namespace martlet::cuda {
namespace {

constexpr int64_t kStageBytes = 32 << 20;
constexpr int64_t kMaxSegmentsOfModel = 1 << 16;
constexpr int64_t kLargestBytes = kMaxSegmentsOfModel * int64_t{sizeof(uint32_t)};
constexpr int kCopyThreads = 4;  // one core does not fill the bus
// How weights are stored: times 2^-exponent, so that those of all usual models are normal halves, and what the largest
// stored number must lie between; where it does not, it is brought to `best` at most.
struct Range {
  int exponent;
  float smallest, largest;
  int best;  // 2^best
};
constexpr Range kPlainRange = {-8, 1.0f / 16, 32768, 0};
// The numbers are scales, 2^24 times as large as what they multiply.
constexpr Range kScaleRange = {6, 64, 32768, 14};

Status check_view(const TensorView& view) {
  const FormatInfo& format = info(view.format);
  if (!format.computes) return unsupported_format(view.format, "");
  if (view.columns() < 1 || view.rows() < 1 || view.columns() % format.block_elements != 0 ||
      view.rows() > std::numeric_limits<int32_t>::max() / 2 ||
      view.columns() > std::numeric_limits<int32_t>::max() / 64)
    return Error{ErrorKind::model, "bad_tensor", "a tensor's rows do not consist of whole blocks of its format", ""};
  return {};
}

bool plain(Format format) {
  return format == Format::F32 || format == Format::F16 || format == Format::BF16;
}

const Range& range_of(Format format) {
  return plain(format) ? kPlainRange : kScaleRange;
}

void copy(std::byte* to, const std::byte* from, int64_t bytes) {
  const int64_t part = (bytes / kCopyThreads + 63) / 64 * 64;
  std::vector<std::jthread> threads;
  int64_t at = 0;
  for (; bytes > (1 << 20) && at + part < bytes; at += part)
    threads.emplace_back([=] { std::memcpy(to + at, from + at, static_cast<size_t>(part)); });
  std::memcpy(to + at, from + at, static_cast<size_t>(bytes - at));
}

}  // namespace

Status check_stack(std::span<const TensorView> stacked, const UploadOptions& options) {
  if (stacked.empty() || stacked.size() > kMaxSegments ||
      (!options.bias.empty() && options.bias.size() != stacked.size()))
    return Error{ErrorKind::model, "bad_tensor", "a stack is empty or too high, or its biases are not one for each",
                 ""};
  for (size_t i = 0; i < stacked.size(); ++i) {
    MARTLET_TRY(check_view(stacked[i]));
    if (stacked[i].columns() != stacked[0].columns())
      return Error{ErrorKind::model, "bad_tensor", "stacked tensors have different numbers of columns", ""};
    if (options.bias.empty()) continue;
    const TensorView& bias = options.bias[i];
    MARTLET_TRY(check_view(bias));
    if (bias.rows() != 1 || bias.columns() != stacked[i].rows())
      return Error{ErrorKind::model, "bad_tensor", "a bias has not one value for each row of its matrix", ""};
  }
  return {};
}

int64_t device_bytes(const TensorView& view) {
  if (view.rows() == 1) return view.columns() * static_cast<int64_t>(sizeof(float));
  return segment_bytes(view.format, view.rows(), view.columns());
}

int64_t halves_bytes(const TensorView& view) {
  if (view.rows() == 1 || plain(view.format)) return 0;
  return view.rows() * ((view.columns() + 63) / 64 * 64) * static_cast<int64_t>(sizeof(__half));
}

int64_t StoredWeight::taken() const {
  int64_t bytes = copy.taken() + bias.taken() + vector.taken();
  for (const StoredSegment& segment : segments) bytes += segment.memory.taken();
  return bytes;
}

int64_t Uploader::buffer_bytes() {
  return 2 * taken_bytes(kStageBytes) + taken_bytes(kLargestBytes);
}

Uploader::~Uploader() {
  for (Stage& stage : stages_) {
    if (stage.free) cudaEventDestroy(stage.free);
  }
}

Status Uploader::reserve(int64_t bytes) {
  for (Stage& stage : stages_) {
    if (stage.host.size() >= bytes) continue;
    if (!stage.free) MARTLET_TRY(check(cudaEventCreateWithFlags(&stage.free, cudaEventDisableTiming), "an event"));
    MARTLET_TRY(check(cudaEventSynchronize(stage.free), "uploading weights"));
    MARTLET_ASSIGN(stage.host, Memory::allocate(Place::pinned, bytes));
    MARTLET_ASSIGN(stage.device, Memory::allocate(Place::device, bytes));
  }
  if (largest_) return {};
  MARTLET_ASSIGN(largest_, Memory::allocate(Place::device, kLargestBytes));
  return check(cudaMemsetAsync(largest_.data(), 0, static_cast<size_t>(largest_.size()), stream_.handle), "clearing");
}

// Rows of a segment, whole tiles but at the end: through the next stage, then shuffled to their place.
Status Uploader::send_rows(const StoredSegment& segment, int64_t first_row, int64_t rows, int64_t slot) {
  Stage& stage = stages_[next_++ % 2];
  const TensorView& view = segment.view;
  const int64_t bytes = rows * view.row_bytes();
  MARTLET_TRY(check(cudaEventSynchronize(stage.free), "uploading weights"));
  copy(stage.host.data(), view.data + first_row * view.row_bytes(), bytes);
  MARTLET_TRY(check(cudaMemcpyAsync(stage.device.data(), stage.host.data(), static_cast<size_t>(bytes),
                                    cudaMemcpyHostToDevice, stream_.handle),
                    "uploading weights"));
  ShuffleArguments arguments;
  arguments.segment = segment.device;
  arguments.format = view.format;
  arguments.native = stage.device.data();
  arguments.row_bytes = view.row_bytes();
  arguments.columns = static_cast<int32_t>(view.columns());
  arguments.first_tile = static_cast<int32_t>(first_row / 16);
  arguments.tiles = static_cast<int32_t>((rows + 15) / 16);
  arguments.largest = largest_.as<uint32_t>() + slot;
  shuffle(stream_, arguments);
  MARTLET_TRY(check(stream_.error, "shuffling weights"));
  return check(cudaEventRecord(stage.free, stream_.handle), "uploading weights");
}

Status Uploader::send(StoredSegment& segment, int64_t slot) {
  const int64_t tile_bytes = segment.view.row_bytes() * 16;
  MARTLET_TRY(reserve(std::max(kStageBytes, tile_bytes)));
  const int64_t at_once = std::max<int64_t>(1, kStageBytes / tile_bytes) * 16;
  for (int64_t row = 0; row < segment.view.rows(); row += at_once)
    MARTLET_TRY(send_rows(segment, row, std::min(at_once, segment.view.rows() - row), slot));
  return {};
}

Result<Memory> Uploader::send_floats(std::span<const float> values) {
  const auto bytes = static_cast<int64_t>(values.size_bytes());
  MARTLET_ASSIGN(Memory memory, Memory::allocate(Place::device, bytes));
  // From pageable memory: the call returns when the values have been read.
  MARTLET_TRY(
      check(cudaMemcpyAsync(memory.data(), values.data(), values.size_bytes(), cudaMemcpyHostToDevice, stream_.handle),
            "uploading weights"));
  return memory;
}

Result<StoredWeight> Uploader::upload(ModelId model, std::span<const TensorView> stacked,
                                      const UploadOptions& options) {
  MARTLET_TRY(check_stack(stacked, options));
  StoredWeight out;
  out.model = model;
  out.columns = stacked[0].columns();
  std::vector<float> bias;
  for (const TensorView& view : options.bias) {
    bias.resize(bias.size() + static_cast<size_t>(view.columns()));
    dequantize_row(view, 0, std::span(bias).last(static_cast<size_t>(view.columns())));
  }
  if (!bias.empty()) {
    MARTLET_ASSIGN(out.bias, send_floats(bias));
  }
  for (const TensorView& view : stacked) out.rows += view.rows();
  if (out.rows == 1) {
    std::vector<float> values(static_cast<size_t>(out.columns));
    dequantize_row(stacked[0], 0, values);
    MARTLET_ASSIGN(out.vector, send_floats(values));
    return out;
  }
  int64_t first_row = 0;
  for (const TensorView& view : stacked) {
    StoredSegment segment;
    segment.view = view;
    MARTLET_ASSIGN(segment.memory,
                   Memory::allocate(Place::device, segment_bytes(view.format, view.rows(), view.columns())));
    segment.device = {.format = plain(view.format) ? Format::F16 : view.format,
                      .rows = static_cast<int32_t>(view.rows()),
                      .first_row = static_cast<int32_t>(first_row),
                      .first_tile = out.tiles,
                      .steps = static_cast<int32_t>((view.columns() + 63) / 64),
                      .record_bytes = record_bytes(view.format),
                      .scale = std::ldexp(1.0f, range_of(view.format).exponent),
                      .data = segment.memory.data()};
    first_row += view.rows();
    out.tiles += static_cast<int32_t>((view.rows() + 15) / 16);
    if (segments_ == kMaxSegmentsOfModel)
      return Error{ErrorKind::model, "bad_tensor", "the model has more matrices than can be uploaded at once", ""};
    MARTLET_TRY(send(segment, segments_++));
    out.segments.push_back(std::move(segment));
  }
  return out;
}

Status Uploader::finish(std::span<StoredWeight* const> weights) {
  if (segments_ == 0) return {};
  std::vector<float> largest(static_cast<size_t>(segments_));
  MARTLET_TRY(check(cudaMemcpyAsync(largest.data(), largest_.data(), largest.size() * sizeof(float),
                                    cudaMemcpyDeviceToHost, stream_.handle),
                    "uploading weights"));
  MARTLET_TRY(check(cudaStreamSynchronize(stream_.handle), "uploading weights"));
  size_t slot = 0;
  for (StoredWeight* weight : weights) {
    for (StoredSegment& segment : weight->segments) {
      const float found = largest[slot++];
      const Range& range = range_of(segment.view.format);
      if (found == 0 || !std::isfinite(found) || (found <= range.largest && found >= range.smallest)) continue;
      int exponent = 0;
      std::frexp(found, &exponent);  // found = m * 2^exponent, m in [1/2, 1)
      segment.device.scale = std::ldexp(segment.device.scale, exponent - range.best);
      MARTLET_TRY(send(segment, static_cast<int64_t>(slot) - 1));
    }
  }
  MARTLET_TRY(check(cudaStreamSynchronize(stream_.handle), "uploading weights"));
  for (Stage& stage : stages_) {
    stage.host = Memory();
    stage.device = Memory();
  }
  largest_ = Memory();
  segments_ = 0;
  return {};
}

}  // namespace martlet::cuda
