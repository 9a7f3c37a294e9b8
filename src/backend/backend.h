#pragma once

// The operator set that every backend implements: about eight coarse calls a layer, no virtual call inside a loop. A
// model's forward() calls them inside submit(); all calls come from one thread, the engine's.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "backend/batch.h"
#include "backend/tensor.h"
#include "base/error.h"
#include "base/function_ref.h"
#include "martlet/cache_type.h"
#include "tensor/tensor_view.h"

namespace martlet {

enum class ModelId : int32_t {};
enum class Ticket : int64_t {};

// Index of an uploaded weight: one or more stacked matrices (row segments of any formats), a vector, or none.
struct Weight {
  int32_t id = -1;
  explicit operator bool() const { return id >= 0; }
};

// One kind of cache that layers of a model share. The plan says how many pages it has.
struct CacheGroup {
  // recurrent: a page is a slot with one sequence's state, for each head of each layer a matrix of key_size x
  // value_size. Sliding window and latent kinds join when their layers do.
  enum class Kind { paged, recurrent };
  Kind kind = Kind::paged;
  int32_t layers = 0, kv_heads = 0, key_size = 0, value_size = 0;
  int32_t pages = 0;
  CacheType type = CacheType::f16;
};

struct UploadOptions {
  std::span<const TensorView> bias;  // one vector a segment, or none at all
};

struct Norm {
  enum class Kind { rms } kind = Kind::rms;
  Weight weight;
  float epsilon = 1e-5f;
};

struct Attention {
  int32_t group = 0, layer = 0;  // where its keys and values are cached
  int32_t heads = 0, kv_heads = 0, key_size = 0, value_size = 0;
  float scale = 0;           // of the scores, usually 1 / sqrt(key_size)
  Norm q_norm, k_norm;       // per head, before RoPE; without weight: none
  Weight rope_frequencies;   // f32, radians a position for each rotated pair; its size * 2 are rotated, the rest pass
  float rope_magnitude = 1;  // multiplies sine and cosine (YaRN)
  bool rope_interleaved = false;  // pairs are (2i, 2i+1), else (i, i + rotated / 2)
};

enum class Activation { silu_gated };  // input [gate | up], half as many columns out

struct Outputs {
  Tensor logits;  // one row for each Batch::outputs
  Tensor hidden;  // the same rows before the head
};

// Columns of the tensors that a step makes.
struct StepWidths {
  int64_t residual = 0;    // of the residual stream
  int64_t projected = 0;   // of queries, keys and values side by side
  int64_t attended = 0;    // of what attention gives
  int64_t heads = 0;       // no columns: heads of queries, for each of which attention keeps a little more
  int64_t network = 0;     // inside the feed-forward network; gate and up have as many each
  int64_t vocabulary = 0;  // of logits
};

// What steps will be at most.
struct StepLimits {
  int32_t rows = 0;       // of one step
  int32_t sequences = 0;  // of one step
  int32_t context = 0;    // tokens of a sequence
};

// Bytes of the device that holds weights, cache and workspace.
struct DeviceMemory {
  int64_t free = 0;  // that nobody holds
  int64_t held = 0;  // that the backend has taken of it
};

class Backend {
 public:
  virtual ~Backend() = default;

  virtual std::string_view name() const = 0;  // "cpu"
  virtual std::string device() const = 0;     // for people: instruction level and threads
  virtual int32_t page_tokens() const = 0;    // tokens a cache page holds
  virtual int32_t max_rows() const = 0;       // rows that one submit takes at most
  // Whether open() takes caches of that type.
  virtual bool keeps(CacheType) const { return true; }
  // Bytes that one page of such a group takes, exactly; nothing when they are beyond counting.
  virtual std::optional<int64_t> cache_page_bytes(const CacheGroup& group) const = 0;
  // For the plan: bytes that a model of those widths takes beside weights and cache, while it is loaded and in steps
  // within the limits.
  virtual int64_t workspace_bytes(const StepLimits& limits, const StepWidths& widths) const = 0;
  // For the plan: bytes that a tensor of the file takes where the backend keeps it.
  virtual int64_t weight_bytes(const TensorView& tensor) const { return tensor.bytes(); }
  // Bytes of it that a product reads.
  virtual int64_t weight_read_bytes(const TensorView& tensor) const { return tensor.bytes(); }
  // For the plan: bytes of another form of a matrix that prepare() makes where spare() leaves room, for speed.
  virtual int64_t copy_bytes(const TensorView&) const { return 0; }
  // None: what the backend takes is the machine's own memory.
  virtual std::optional<DeviceMemory> device_memory() const { return std::nullopt; }
  // Before prepare(): what was planned, so that all memory of steps is taken at once. Without it, as steps need it.
  virtual void limit(const StepLimits&) {}
  // Bytes that the plan leaves over: prepare() may spend them on speed.
  virtual void spare(int64_t) {}

  // Target and draft are two models. Allocates the cache: `memory` errors name what was needed; a kind of group that
  // the backend does not keep is `unsupported_cache`.
  virtual Result<ModelId> open(std::span<const CacheGroup> groups) = 0;
  virtual void close(ModelId model) = 0;
  // `stacked`: matrices with the same columns, one above the other; or one vector. The views stay borrowed until
  // close(). Errors: a format that does not compute ("unsupported_format", by name), shapes that do not stack.
  virtual Result<Weight> upload(ModelId model, std::span<const TensorView> stacked,
                                const UploadOptions& options = {}) = 0;
  // Called once, when all weights are uploaded: builds whatever depends on the shapes of steps, by running `forward` on
  // rows of no sequence, so that no request pays for it.
  virtual Status prepare(ModelId, FunctionRef<Outputs()>) { return {}; }
  // For people, after prepare(): what steps go without, and what would change that; empty: nothing.
  virtual std::string remark() const { return {}; }
  // How often something was built for a shape: does not change after prepare().
  virtual int64_t shape_compilations() const { return 0; }

  // Runs `forward` on the batch and chooses one token for each output row. wait() returns them in the order of
  // Batch::outputs; `top` receives, row after row, Choice::top entries for each choice that wants log-probabilities.
  // A fault makes wait() fail: the requests of that step fail, and the backend stays usable unless the error's kind is
  // `io` (a device that is lost).
  virtual Ticket submit(ModelId model, const Batch& batch, std::span<const Choice> choices,
                        FunctionRef<Outputs()> forward) = 0;
  virtual Status wait(Ticket ticket, std::span<Chosen> chosen, std::span<TokenLogprob> top) = 0;

  // Host copies. read: rows x columns f32, only inside forward() or until the next submit for its outputs.
  virtual void read(const Tensor& tensor, std::span<float> out) = 0;
  virtual Outputs& outputs(Ticket ticket) = 0;  // of the last submit, until the next
  virtual int64_t page_bytes(ModelId model, int32_t group) const = 0;
  virtual void read_page(ModelId model, int32_t group, Page page, std::span<std::byte> out) = 0;
  virtual void write_page(ModelId model, int32_t group, Page page, std::span<const std::byte> bytes) = 0;
  // These pages of a group hold nothing that anybody needs: their memory may go back to the system until they are
  // written again.
  virtual void discard(ModelId, int32_t, std::span<const Page>) {}

  // Operators, valid inside forward() only. `residual`: added to the result.
  virtual Tensor embed(Weight table) = 0;  // rows of the batch's tokens
  virtual Tensor norm(const Tensor& x, const Norm& norm) = 0;
  virtual Tensor linear(const Tensor& x, Weight weight, const Tensor* residual = nullptr) = 0;
  virtual Tensor attend(const Tensor& qkv, const Attention& attention) = 0;  // [q heads | k heads | v heads]
  virtual Tensor activate(const Tensor& x, Activation activation) = 0;
  virtual Tensor gather_outputs(const Tensor& x) = 0;  // the rows of Batch::outputs
};

// Errors: `usage`, "unsupported_cache_type" when the backend does not keep that type.
inline Status check_cache_type(const Backend& backend, CacheType type) {
  if (backend.keeps(type)) return {};
  return Error{
      ErrorKind::usage, "unsupported_cache_type",
      "the " + std::string(backend.name()) + " backend does not keep keys and values as " + std::string(name_of(type)),
      "--cache-type"};
}

}  // namespace martlet
