#pragma once

// The backend's operators on a CUDA device. Work is queued on one stream; steps that decode one row a sequence are
// replayed from graphs, one for each number of rows that steps are rounded up to. Bodies: linear.cpp, rows.cpp,
// attend.cpp, choose.cpp, planned.cpp; the rest in cuda_backend.cpp.

#include <cublas_v2.h>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/choose.h"
#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/device.h"
#include "backend/cuda/kernels/choose.h"
#include "backend/cuda/kernels/linear.h"
#include "backend/cuda/kernels/rows.h"
#include "backend/cuda/step_input.h"
#include "backend/cuda/step_memory.h"
#include "backend/cuda/upload.h"

namespace martlet::cuda {

// Rows that a step of decoding is rounded up to.
inline constexpr std::array<int32_t, 8> kRowBuckets = {1, 2, 4, 8, 16, 32, 64, 128};
static_assert(kRowBuckets.back() <= kChosenRows);

class CudaBackend final : public Backend {
 public:
  explicit CudaBackend(const CudaOptions& options) : max_rows_(options.max_rows), invariant_(options.invariant) {}
  ~CudaBackend() override;
  Status start();

  // Prefixes that were computed one way are not taken for the other's: what is kept on disk is told apart by this.
  std::string_view name() const override { return invariant_ ? "cuda (invariant)" : "cuda"; }
  std::string device() const override { return device_name_; }
  int32_t page_tokens() const override { return kPageTokens; }
  int32_t max_rows() const override { return max_rows_; }
  bool keeps(CacheType type) const override { return format_of(type).element_bytes > 0; }
  std::optional<int64_t> cache_page_bytes(const CacheGroup& group) const override;
  int64_t workspace_bytes(const StepLimits& limits, const StepWidths& widths) const override;
  int64_t weight_bytes(const TensorView& view) const override { return taken_bytes(device_bytes(view)); }
  int64_t weight_read_bytes(const TensorView& view) const override { return device_bytes(view); }
  int64_t copy_bytes(const TensorView& view) const override;
  std::optional<DeviceMemory> device_memory() const override;
  void limit(const StepLimits& limits) override { limits_ = limits; }
  void spare(int64_t bytes) override { spare_bytes_ = bytes; }
  std::string remark() const override;

  Result<ModelId> open(std::span<const CacheGroup> groups) override;
  void close(ModelId model) override;
  Result<Weight> upload(ModelId model, std::span<const TensorView> stacked, const UploadOptions& options) override;
  Status prepare(ModelId model, FunctionRef<Outputs()> forward) override;
  int64_t shape_compilations() const override { return graphs_made_; }

  Ticket submit(ModelId model, const Batch& batch, std::span<const Choice> choices,
                FunctionRef<Outputs()> forward) override;
  Status wait(Ticket ticket, std::span<Chosen> chosen, std::span<TokenLogprob> top) override;
  void read(const Tensor& tensor, std::span<float> out) override;
  Outputs& outputs(Ticket ticket) override;
  int64_t page_bytes(ModelId model, int32_t group) const override;
  void read_page(ModelId model, int32_t group, Page page, std::span<std::byte> out) override;
  void write_page(ModelId model, int32_t group, Page page, std::span<const std::byte> bytes) override;

  Tensor embed(Weight table) override;
  Tensor norm(const Tensor& x, const Norm& norm) override;
  Tensor linear(const Tensor& x, Weight weight, const Tensor* residual) override;
  Tensor attend(const Tensor& qkv, const Attention& attention) override;
  Tensor activate(const Tensor& x, Activation activation) override;
  Tensor gather_outputs(const Tensor& x) override;

 private:
  // What a graph leaves, of as many rows as it has; its memory is the step's, valid until the next.
  struct Left {
    Buffer buffer{nullptr};
    int64_t columns = 0;
  };
  struct Graph {
    cudaGraphExec_t exec = nullptr;
    Left logits, hidden;
  };
  struct OpenModel {
    CacheGroup group;
    int64_t page_bytes = 0;
    Memory cache;
    std::array<Graph, kRowBuckets.size()> graphs;
  };
  // Where a product of the library goes over `scale`, rows as wide as the weight has; `beta` times what is there stays.
  struct LibrarySums {
    void* data;
    cudaDataType type;
    float scale, beta;
  };
  struct Halves {  // weights, rows of `stride`
    const __half* data;
    int32_t stride;
    int64_t rows;
  };
  struct Turns {  // rotations of a step's rows, shared by layers
    Weight frequencies;
    float magnitude;
    int32_t pairs;
    Block table;
  };

  const StoredWeight& stored(Weight weight) const { return *weights_[static_cast<size_t>(weight.id)]; }
  const float* vector(Weight weight) const { return weight ? stored(weight).vector.as<float>() : nullptr; }

  Status ready();
  void drop_graphs();
  void drop_if(bool moved);
  Status make_copies(ModelId model);
  int64_t step_bytes() const;
  int64_t start_bytes() const;
  int64_t listed_pages(const OpenModel& model) const;
  bool reserve_partials(int32_t heads, int32_t value_size);
  std::optional<size_t> bucket_of(const Batch& batch) const;
  void begin_step(OpenModel& model, int32_t rows, int32_t output_rows, bool all_rows_are_outputs);
  Status capture(OpenModel& model, size_t bucket, FunctionRef<Outputs()> forward);
  Status replay(OpenModel& model, size_t bucket, int32_t rows, FunctionRef<Outputs()> forward);
  Status queue(OpenModel& model, const Batch& batch, FunctionRef<Outputs()> forward);
  Status finish_step();
  void copy_pages(const OpenModel& model, std::span<const PageCopy> copies);

  Tensor norm_of_product(const Tensor& x, const Norm& norm);
  void widen_rows(const Buffer& from, int64_t columns, int64_t first, int64_t rows, float* y);
  const float* values(const Tensor& tensor);
  const __half* halves(const Tensor& tensor);
  void multiply(const Product& product, int64_t first_row, int64_t rows, float* y);
  LinearArguments few_rows(const Product& product, int64_t first_row, int64_t rows);
  // Whether an operator that can be fused with the product is, which a few rows at a time may take.
  bool fuses(const Product& product, int64_t rows) const { return product && (rows <= kFewRows || invariant_); }
  void multiply_by_library(const Product& product, int64_t first_row, int64_t rows, float* y);
  void multiply_segments(const Product& product, int64_t first_row, int64_t rows, const LibrarySums& y);
  void multiply_segment(const StoredSegment& segment, const __half* x, int64_t rows, float scale, int64_t y_columns,
                        const LibrarySums& y);
  void multiply_halves(const Halves& w, const __half* x, int64_t rows, float scale, int64_t first_column,
                       int64_t y_columns, const LibrarySums& y);
  bool by_library(const StoredWeight& weight, int64_t rows) const;
  bool has_halves(const StoredWeight& weight) const;
  const float2* turns(const Attention& attention);

  void expect(std::span<const Choice> choices);
  Status choose(const Tensor& logits);
  Status choose_on_host(const float* logits, int64_t columns, int64_t first, int64_t rows);
  Status draw_from_excerpts(const float* logits, int64_t columns, int64_t first, std::span<const size_t> drawn,
                            std::vector<size_t>& whole);
  Status choose_from_rows(const float* logits, int64_t columns, int64_t first, std::span<const size_t> whole);

  const int32_t max_rows_;
  const bool invariant_;
  std::string device_name_;
  int32_t multiprocessors_ = 0, shared_bytes_ = 0;  // of the device; that a block may have
  Stream stream_;
  cublasHandle_t blas_ = nullptr;
  Uploader uploader_{stream_};
  std::vector<size_t> uploading_;  // weights whose uploads are not finished
  int64_t spare_bytes_ = 0;        // for copies
  StepLimits limits_;              // zeros: nobody has said

  StepMemory memory_;
  StepInput input_;
  Memory blas_workspace_, unpacked_, partials_, finished_;
  Memory choice_scratch_, device_wishes_;
  Memory best_;         // Best of each output row, pinned: the device writes it where the host reads
  Memory excerpts_;     // pinned: Excerpt of each row that is drawn from one
  Memory wishes_;       // pinned: Wish of each
  Memory host_logits_;  // pinned: rows that the host chooses from
  std::vector<std::unique_ptr<OpenModel>> models_;
  std::vector<std::optional<StoredWeight>> weights_;
  int64_t graphs_made_ = 0;

  // The step that runs, and what the last one left.
  OpenModel* model_ = nullptr;
  int32_t rows_ = 0, output_rows_ = 0;
  bool all_rows_are_outputs_ = false, capturing_ = false;
  std::vector<Turns> turns_;
  Outputs outputs_;
  int64_t ticket_ = 0;
  bool running_ = false;  // the step's results are not read yet
  Status status_, broken_;
  std::vector<Token> tokens_;
  std::vector<Choice> choices_;
  std::vector<Chosen> chosen_;
  std::vector<TokenLogprob> top_;
  std::vector<size_t> tops_;  // first of each choice in top_
  Chooser chooser_;
};

}  // namespace martlet::cuda
