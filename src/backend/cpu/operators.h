#pragma once

// The backend's operators on the CPU. linear() and norm() are deferred until somebody reads their result, so that a
// norm is quantized row by row while it is hot, gate and up meet their activation in the cache, and logits of many rows
// are never all there at once. Bodies: linear.cpp, rows.cpp, attend.cpp; the rest in cpu_backend.cpp.

#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "backend/backend.h"
#include "backend/choose.h"
#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/isa/level.h"
#include "backend/cpu/kernels/vectors.h"
#include "backend/cpu/paged_cache.h"
#include "backend/cpu/rotation.h"
#include "backend/cpu/span_attention.h"
#include "backend/cpu/step_memory.h"
#include "backend/cpu/thread_pool.h"
#include "backend/cpu/weights.h"

namespace martlet::cpu {

// Bytes of partial results that the spans of one wave of attention leave behind, at most (or one span's).
inline constexpr int64_t kPartialBytes = 8 << 20;

class CpuBackend final : public Backend {
 public:
  CpuBackend(const CpuOptions& options, const Level& level, int threads);

  std::string_view name() const override { return "cpu"; }
  std::string device() const override;
  int32_t page_tokens() const override { return kPageTokens; }
  int32_t max_rows() const override { return max_rows_; }
  bool keeps(CacheType type) const override { return static_cast<int>(type) < kKeptTypes; }
  std::optional<int64_t> cache_page_bytes(const CacheGroup& group) const override {
    return cpu::cache_page_bytes(group);
  }
  int64_t workspace_bytes(const StepLimits& limits, const StepWidths& widths) const override;

  Result<ModelId> open(std::span<const CacheGroup> groups) override;
  void close(ModelId model) override;
  Result<Weight> upload(ModelId model, std::span<const TensorView> stacked, const UploadOptions& options) override;

  Ticket submit(ModelId model, const Batch& batch, std::span<const Choice> choices,
                FunctionRef<Outputs()> forward) override;
  Status wait(Ticket ticket, std::span<Chosen> chosen, std::span<TokenLogprob> top) override;
  void read(const Tensor& tensor, std::span<float> out) override;
  Outputs& outputs(Ticket ticket) override;
  int64_t page_bytes(ModelId model, int32_t group) const override;
  void read_page(ModelId model, int32_t group, Page page, std::span<std::byte> out) override;
  void write_page(ModelId model, int32_t group, Page page, std::span<const std::byte> bytes) override;
  void discard(ModelId model, int32_t group, std::span<const Page> pages) override;

  Tensor embed(Weight table) override;
  Tensor norm(const Tensor& x, const Norm& norm) override;
  Tensor linear(const Tensor& x, Weight weight, const Tensor* residual) override;
  Tensor attend(const Tensor& qkv, const Attention& attention) override;
  Tensor activate(const Tensor& x, Activation activation) override;
  Tensor gather_outputs(const Tensor& x) override;

  int64_t workspace_used() const { return memory_.allocated(); }  // by tensors of steps so far, at most

 private:
  struct OpenModel {
    std::vector<PagedCache> caches;
  };
  // What one thread works in.
  struct Worker {
    Mapping linear;     // of the kernels
    Mapping rows;       // floats of one row of the widest weight's columns; with f32_activations of a tile of rows
    Mapping gate_up;    // outputs of gate and up before their activation
    Mapping attention;  // queries, scores, widened pages
    Chooser chooser;
  };
  // A linear operator on some rows, ready to run column by column.
  struct Product {
    const StoredWeight* weight;
    int64_t rows;
    std::array<const std::byte*, kActivationKinds> activations;
    const float* exact;  // activations as they are, with f32_activations
    const float* residual;
    int64_t residual_stride;
  };

  const StoredWeight& stored(Weight weight) const { return *weights_[static_cast<size_t>(weight.id)]; }
  bool reserve(Mapping Worker::*part, int64_t bytes);
  int64_t gate_up_bytes() const;
  int64_t row_bytes(int64_t columns) const;
  void each_row(int64_t rows, int64_t values_a_row, ThreadPool::Work work);

  void start_step(const Batch& batch);
  void choose(std::span<const Choice> choices);

  const float* values(const Tensor& tensor);
  const std::byte* activations(const Tensor& x, ActivationKind kind);
  void norm_rows(const Deferred& operation, int64_t rows, float* out);
  Product prepare(const Deferred& operation, int64_t first_row, int64_t rows);
  void multiply(const Product& product, float* y, int64_t y_stride);
  void columns_of(const Product& product, const Segment& segment, int64_t begin, int64_t end, float* y,
                  int64_t y_stride, int worker);
  void columns_exactly(const Product& product, const Segment& segment, int64_t begin, int64_t end, float* y,
                       int64_t y_stride, int worker);
  Tensor activate_gate_up(const Deferred& operation, int64_t rows);
  bool fuses_activation(const Buffer& buffer) const;

  const Rotation* rotation(const Attention& attention);
  void attend_by_spans(const AttentionStep& step, std::span<const AttentionItem> items, int32_t spans);
  std::byte* scratch(int worker) const { return workers_[static_cast<size_t>(worker)].attention.data(); }

  const Level& level_;
  const int32_t max_rows_;
  const bool exact_;
  ThreadPool pool_;
  std::vector<Worker> workers_;
  StepMemory memory_;
  std::vector<std::unique_ptr<OpenModel>> models_;
  std::vector<std::optional<StoredWeight>> weights_;

  // The step that runs, and what the last one left.
  const OpenModel* model_ = nullptr;
  const Batch* batch_ = nullptr;
  std::vector<Token> tokens_;
  std::vector<int32_t> row_sequences_;
  std::deque<Rotation> rotations_;
  Outputs outputs_;
  int64_t ticket_ = 0;
  Status status_;
  std::vector<Chosen> chosen_;
  std::vector<TokenLogprob> top_;
};

}  // namespace martlet::cpu
