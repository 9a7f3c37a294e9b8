#pragma once

// Weights on the device, and their way there: from the mapped file through pinned double buffers, shuffled into the
// layout of kernels/segment.h by the device.

#include <vector>

#include "backend/backend.h"
#include "backend/cuda/device.h"
#include "backend/cuda/kernels/segment.h"
#include "backend/cuda/kernels/stream.h"

namespace martlet::cuda {

struct StoredSegment {
  TensorView view;
  DeviceSegment device;
  Memory memory;
  const __half* copy = nullptr;  // in the weight's copy, or null
};

struct StoredWeight {
  ModelId model{};
  int64_t columns = 0, rows = 0;
  int32_t tiles = 0;
  std::vector<StoredSegment> segments;  // none when it has one row
  bool multiplied = false;              // a product has read it
  Memory copy;                          // halves of all rows, for products of many rows; or nothing
  Memory bias;                          // f32, one a row, or nothing
  Memory vector;                        // of a weight with one row: its values, f32

  int64_t taken() const;  // bytes of the device
};

// Errors (model): "unsupported_format", "bad_tensor" for what does not stack.
Status check_stack(std::span<const TensorView> stacked, const UploadOptions& options);
// Bytes that a tensor has on the device.
int64_t device_bytes(const TensorView& view);
// Bytes of its copy in halves; none where it is halves as it is, or a vector.
int64_t halves_bytes(const TensorView& view);

class Uploader {
 public:
  explicit Uploader(Stream& stream) : stream_(stream) {}
  ~Uploader();
  Uploader(const Uploader&) = delete;
  Uploader& operator=(const Uploader&) = delete;

  // Copies are under way when it returns; the views are read until then only.
  Result<StoredWeight> upload(ModelId model, std::span<const TensorView> stacked, const UploadOptions& options);
  // Waits, and uploads again, with another exponent, what did not lie well in the range of halves. Gives the buffers
  // back.
  Status finish(std::span<StoredWeight* const> weights);
  // Bytes of the device that buffers take from the first upload() to finish(), and now.
  static int64_t buffer_bytes();
  int64_t taken() const { return stages_[0].device.taken() + stages_[1].device.taken() + largest_.taken(); }

 private:
  struct Stage {
    Memory host, device;
    cudaEvent_t free = nullptr;  // when the device has read it
  };

  Status reserve(int64_t bytes);
  Status send(StoredSegment& segment, int64_t slot);
  Status send_rows(const StoredSegment& segment, int64_t first_row, int64_t rows, int64_t slot);
  Result<Memory> send_floats(std::span<const float> values);

  Stream& stream_;
  Stage stages_[2];
  int next_ = 0;
  Memory largest_;  // one number a segment, in the order of their uploads
  int64_t segments_ = 0;
};

}  // namespace martlet::cuda
