#include "backend/cuda/cuda_backend.h"

#include <algorithm>
#include <cassert>
#include <new>
#include <string>

#include "backend/cuda/operators.h"
#include "base/checked.h"

namespace martlet {

Result<std::unique_ptr<Backend>> make_cuda_backend(const CudaOptions& options) {
  auto backend = std::make_unique<cuda::CudaBackend>(options);
  MARTLET_TRY(backend->start());
  return std::unique_ptr<Backend>(std::move(backend));
}

namespace cuda {
namespace {

constexpr int64_t kBlasWorkspace = 32 << 20;  // what the library advises for this architecture
constexpr int64_t kUnpackedBytes = 64 << 20;  // part of a weight as halves, for products of many rows

// Halves that a segment's copy has: none where it is halves as it is.
int64_t copied_halves(const DeviceSegment& segment) {
  return segment.format == Format::F16 ? 0 : int64_t{segment.rows} * segment.steps * 64;
}

int64_t bytes_of_copy(const StoredWeight& weight) {
  int64_t halves = 0;
  for (const StoredSegment& segment : weight.segments) halves += copied_halves(segment.device);
  return taken_bytes(halves * static_cast<int64_t>(sizeof(__half)));
}

bool wants_copy(const StoredWeight& weight) {
  return weight.multiplied && bytes_of_copy(weight) > 0;
}

Error no_library() {
  return {ErrorKind::io, "no_device", "the matrix library of CUDA does not start on this device", "--backend cuda"};
}

}  // namespace

Status CudaBackend::start() {
  MARTLET_TRY(check_device());
  cudaDeviceProp properties;
  MARTLET_TRY(check(cudaGetDeviceProperties(&properties, 0), "reading the device's properties"));
  device_name_ = properties.name;
  multiprocessors_ = properties.multiProcessorCount;
  shared_bytes_ = static_cast<int32_t>(properties.sharedMemPerBlockOptin);
  stream_.dependent = properties.major >= 9;
  MARTLET_TRY(check(cudaStreamCreateWithFlags(&stream_.handle, cudaStreamNonBlocking), "creating a stream"));
  if (cublasCreate(&blas_) != CUBLAS_STATUS_SUCCESS || cublasSetStream(blas_, stream_.handle) != CUBLAS_STATUS_SUCCESS)
    return no_library();
  MARTLET_ASSIGN(blas_workspace_, Memory::allocate(Place::device, kBlasWorkspace));
  if (cublasSetWorkspace(blas_, blas_workspace_.data(), static_cast<size_t>(kBlasWorkspace)) != CUBLAS_STATUS_SUCCESS)
    return no_library();
  MARTLET_ASSIGN(unpacked_, Memory::allocate(Place::device, kUnpackedBytes));
  MARTLET_ASSIGN(finished_, Memory::allocate(Place::device, int64_t{kMergeRows} * kMergeUnits * 4));
  MARTLET_ASSIGN(choice_scratch_, Memory::allocate(Place::device, choice_scratch_bytes()));
  MARTLET_ASSIGN(device_wishes_, Memory::allocate(Place::device, kChosenRows * static_cast<int64_t>(sizeof(Wish))));
  MARTLET_ASSIGN(wishes_, Memory::allocate(Place::pinned, device_wishes_.size()));
  MARTLET_ASSIGN(excerpts_, Memory::allocate(Place::pinned, kChosenRows * static_cast<int64_t>(sizeof(Excerpt))));
  MARTLET_ASSIGN(best_, Memory::allocate(Place::pinned, max_rows_ * static_cast<int64_t>(sizeof(Best))));
  MARTLET_TRY(check(cudaMemset(finished_.data(), 0, static_cast<size_t>(finished_.size())), "clearing"));
  return check(cudaMemset(choice_scratch_.data(), 0, static_cast<size_t>(choice_scratch_.size())), "clearing");
}

CudaBackend::~CudaBackend() {
  outputs_ = {};
  drop_graphs();
  if (blas_) cublasDestroy(blas_);
  if (stream_.handle) cudaStreamDestroy(stream_.handle);
}

std::optional<int64_t> CudaBackend::cache_page_bytes(const CacheGroup& group) const {
  const auto head = static_cast<uint64_t>(format_of(group.type).head_bytes(group.key_size, group.value_size));
  const Checked bytes =
      Checked(static_cast<uint64_t>(group.layers)) * Checked(static_cast<uint64_t>(group.kv_heads)) * head;
  if (!bytes.within(uint64_t{1} << 62)) return std::nullopt;
  return static_cast<int64_t>(*bytes.get());
}

Result<ModelId> CudaBackend::open(std::span<const CacheGroup> groups) {
  if (groups.size() != 1)
    return Error{ErrorKind::model, "unsupported_cache", "the CUDA backend takes one kind of attention a model", ""};
  const CacheGroup& group = groups[0];
  if (group.kind != CacheGroup::Kind::paged)
    return Error{ErrorKind::model, "unsupported_cache", "the CUDA backend keeps no states of recurrent layers", ""};
  MARTLET_TRY(check_cache_type(*this, group.type));
  if (group.layers < 1 || group.kv_heads < 1 || group.kv_heads > kMergeUnits || group.pages < 1 ||
      group.key_size < 16 || group.key_size % 16 != 0 || group.key_size > kMaxHeadSize || group.value_size < 16 ||
      group.value_size % 16 != 0 || group.value_size > kMaxHeadSize) {
    return Error{ErrorKind::model, "unsupported_head_size",
                 "the CUDA backend takes heads whose sizes are multiples of 16 and at most 256", ""};
  }
  auto model = std::make_unique<OpenModel>();
  model->group = group;
  model->page_bytes = cache_page_bytes(group).value_or(0);
  const Checked bytes = Checked(static_cast<uint64_t>(model->page_bytes)) * static_cast<uint64_t>(group.pages);
  if (model->page_bytes == 0 || !bytes.within(uint64_t{1} << 62))
    return Error{ErrorKind::memory, "out_of_device_memory", "the cache cannot be counted; use a smaller context", ""};
  MARTLET_ASSIGN(model->cache, Memory::allocate(Place::device, static_cast<int64_t>(*bytes.get())));
  // What no token has been written to is masked, but must not hold NaN where a mask multiplies.
  MARTLET_TRY(
      check(cudaMemset(model->cache.data(), 0, static_cast<size_t>(model->cache.size())), "clearing the cache"));
  models_.push_back(std::move(model));
  return static_cast<ModelId>(models_.size() - 1);
}

void CudaBackend::close(ModelId model) {
  outputs_ = {};
  turns_.clear();
  cudaStreamSynchronize(stream_.handle);
  OpenModel& closed = *models_[static_cast<size_t>(model)];
  for (Graph& graph : closed.graphs) {
    if (graph.exec) cudaGraphExecDestroy(graph.exec);
  }
  uploading_.clear();
  for (std::optional<StoredWeight>& weight : weights_) {
    if (!weight || weight->model != model) continue;
    spare_bytes_ += weight->copy.size();
    weight.reset();
  }
  models_[static_cast<size_t>(model)].reset();
}

Result<Weight> CudaBackend::upload(ModelId model, std::span<const TensorView> stacked, const UploadOptions& options) {
  MARTLET_ASSIGN(StoredWeight weight, uploader_.upload(model, stacked, options));
  uploading_.push_back(weights_.size());
  weights_.push_back(std::move(weight));
  return Weight{static_cast<int32_t>(weights_.size() - 1)};
}

// Finishes uploads and makes room for a step.
Status CudaBackend::ready() {
  if (!uploading_.empty()) {
    std::vector<StoredWeight*> weights;
    for (const size_t i : uploading_) weights.push_back(&*weights_[i]);
    MARTLET_TRY(uploader_.finish(weights));
    uploading_.clear();
  }
  outputs_ = {};
  turns_.clear();
  drop_if(step_bytes() > memory_.size());
  return memory_.reserve(step_bytes());
}

void CudaBackend::drop_if(bool moved) {
  if (moved) drop_graphs();
}

void CudaBackend::drop_graphs() {
  for (auto& model : models_) {
    if (!model) continue;
    for (Graph& graph : model->graphs) {
      if (graph.exec) cudaGraphExecDestroy(graph.exec);
      graph.exec = nullptr;
    }
  }
}

// Halves of the matrices that products read, as far as spare memory reaches: products of many rows then need no
// unpacking. The one of logits has most rows and is read for few: it comes last.
Status CudaBackend::make_copies(ModelId model) {
  if (invariant_) return {};  // the library is not used
  std::vector<StoredWeight*> wanted;
  for (auto& weight : weights_) {
    if (weight && weight->model == model && wants_copy(*weight)) wanted.push_back(&*weight);
  }
  std::ranges::stable_sort(wanted, {}, &StoredWeight::rows);
  for (StoredWeight* weight : wanted) {
    if (bytes_of_copy(*weight) > spare_bytes_) continue;
    Result<Memory> memory = Memory::allocate(Place::device, bytes_of_copy(*weight));
    if (!memory && memory.error().kind != ErrorKind::memory) return memory.error();
    if (!memory) continue;  // somebody else has taken it since the plan was made
    weight->copy = std::move(*memory);
    spare_bytes_ -= weight->copy.size();
    auto* to = weight->copy.as<__half>();
    for (StoredSegment& segment : weight->segments) {
      if (copied_halves(segment.device) == 0) continue;
      unpack_rows(stream_, segment.device, 0, segment.device.rows, to);
      segment.copy = to;
      to += copied_halves(segment.device);
    }
  }
  return check(stream_.error, "unpacking weights");
}

std::string CudaBackend::remark() const {
  if (invariant_) return {};
  int32_t wanted = 0, made = 0;
  for (const auto& weight : weights_) {
    if (!weight || !wants_copy(*weight)) continue;
    ++wanted;
    if (weight->copy) ++made;
  }
  if (made == wanted) return {};
  return "device memory is left for copies in halves of " + std::to_string(made) + " of " + std::to_string(wanted) +
         " matrices: long prompts are read slower than with all of them; a smaller --context, or a larger --memory "
         "where one was given, leaves more";
}

Status CudaBackend::prepare(ModelId id, FunctionRef<Outputs()> forward) {
  OpenModel& model = *models_[static_cast<size_t>(id)];
  MARTLET_TRY(ready());
  MARTLET_ASSIGN(const bool moved, input_.reserve(max_rows_, listed_pages(model)));
  if (invariant_) MARTLET_TRY(input_.reserve_alone(max_rows_, limits_.context));
  drop_if(moved);
  expect({});
  input_.fill({}, {}, 1, false);
  try {
    // A step of nothing but padding first: it loads kernels, finds the sizes of what captured steps share and which
    // weights products read.
    MARTLET_TRY(input_.send(stream_.handle));
    begin_step(model, 1, 1, true);
    outputs_ = forward();
    MARTLET_TRY(choose(outputs_.logits));
    MARTLET_TRY(check(cudaStreamSynchronize(stream_.handle), "preparing the model"));
    MARTLET_TRY(make_copies(id));
    for (size_t b = 0; b < kRowBuckets.size() && kRowBuckets[b] <= max_rows_; ++b)
      MARTLET_TRY(capture(model, b, forward));
  } catch (const std::bad_alloc&) {
    return Error{ErrorKind::memory, "out_of_device_memory", "a step does not fit the device's workspace", ""};
  }
  MARTLET_TRY(status_);
  return check(stream_.error, "preparing the model");
}

void CudaBackend::begin_step(OpenModel& model, int32_t rows, int32_t output_rows, bool all_rows_are_outputs) {
  model_ = &model;
  rows_ = rows;
  output_rows_ = output_rows;
  all_rows_are_outputs_ = all_rows_are_outputs;
  outputs_ = {};
  turns_.clear();
}

Status CudaBackend::capture(OpenModel& model, size_t bucket, FunctionRef<Outputs()> forward) {
  const int32_t rows = kRowBuckets[bucket];
  Graph& graph = model.graphs[bucket];
  begin_step(model, rows, rows, true);
  MARTLET_TRY(check(cudaStreamBeginCapture(stream_.handle, cudaStreamCaptureModeThreadLocal), "capturing a step"));
  capturing_ = true;
  Status chosen;
  cudaGraph_t captured = nullptr;
  try {
    const Outputs outputs = forward();
    values(outputs.logits);
    chosen = choose(outputs.logits);
    const auto keep = [](Left& left, const Tensor& tensor) {
      if (!tensor) return;
      left.buffer.alias(buffer_of(tensor));
      left.columns = tensor.columns;
    };
    keep(graph.logits, outputs.logits);
    keep(graph.hidden, outputs.hidden);
  } catch (...) {  // a stream left capturing would refuse every later step
    capturing_ = false;
    cudaStreamEndCapture(stream_.handle, &captured);
    if (captured) cudaGraphDestroy(captured);
    throw;
  }
  turns_.clear();
  capturing_ = false;
  MARTLET_TRY(check(cudaStreamEndCapture(stream_.handle, &captured), "capturing a step"));
  const cudaError_t made = cudaGraphInstantiate(&graph.exec, captured, 0);
  cudaGraphDestroy(captured);
  MARTLET_TRY(check(made, "instantiating a step"));
  ++graphs_made_;
  return chosen;
}

// The graph that serves the batch: each sequence decodes one row, and all rows are outputs.
std::optional<size_t> CudaBackend::bucket_of(const Batch& batch) const {
  const int32_t rows = batch.rows();
  if (rows == 0 || rows != batch.sequences() || rows != static_cast<int32_t>(batch.outputs.size())) return std::nullopt;
  for (int32_t s = 0; s < rows; ++s) {
    if (batch.starts[static_cast<size_t>(s)] != s) return std::nullopt;
  }
  const auto bucket = std::ranges::lower_bound(kRowBuckets, rows);
  if (bucket == kRowBuckets.end() || *bucket > max_rows_) return std::nullopt;
  return static_cast<size_t>(bucket - kRowBuckets.begin());
}

Status CudaBackend::replay(OpenModel& model, size_t bucket, int32_t rows, FunctionRef<Outputs()> forward) {
  Graph& graph = model.graphs[bucket];
  if (!graph.exec) MARTLET_TRY(capture(model, bucket, forward));
  MARTLET_TRY(check(cudaGraphLaunch(graph.exec, stream_.handle), "launching a step"));
  outputs_.logits = memory_.alias(rows, graph.logits.columns, graph.logits.buffer);
  if (graph.hidden.columns > 0) outputs_.hidden = memory_.alias(rows, graph.hidden.columns, graph.hidden.buffer);
  return choose_on_host(graph.logits.buffer.values.as<float>(), graph.logits.columns, 0, rows);
}

void CudaBackend::copy_pages(const OpenModel& model, std::span<const PageCopy> copies) {
  // Whole pages: what lies behind a copy's tokens is never read before it is written.
  for (const PageCopy& copy : copies) {
    std::byte* cache = model.cache.data();
    stream_.check(cudaMemcpyAsync(cache + copy.to * model.page_bytes, cache + copy.from * model.page_bytes,
                                  static_cast<size_t>(model.page_bytes), cudaMemcpyDeviceToDevice, stream_.handle));
  }
}

Status CudaBackend::queue(OpenModel& model, const Batch& batch, FunctionRef<Outputs()> forward) {
  MARTLET_TRY(ready());
  const int64_t pages = std::max(listed_pages(model), StepInput::pages_of(batch));
  MARTLET_ASSIGN(const bool moved, input_.reserve(max_rows_, pages));
  drop_if(moved);
  const std::optional<size_t> bucket = bucket_of(batch);
  const int32_t rows = batch.rows(), outputs = static_cast<int32_t>(batch.outputs.size());
  input_.fill(batch, tokens_, bucket ? kRowBuckets[*bucket] : rows, invariant_ && !bucket);
  MARTLET_TRY(input_.send(stream_.handle));
  copy_pages(model, batch.copies);
  if (bucket) {
    MARTLET_TRY(replay(model, *bucket, rows, forward));
  } else {
    begin_step(model, rows, outputs, false);
    outputs_ = forward();
    if (outputs > 0) MARTLET_TRY(choose(outputs_.logits));
  }
  return status_;
}

Ticket CudaBackend::submit(ModelId model, const Batch& batch, std::span<const Choice> choices,
                           FunctionRef<Outputs()> forward) {
  assert(batch.rows() <= max_rows_ && choices.size() == batch.outputs.size());
  status_ = finish_step();
  tokens_.assign(batch.tokens.begin(), batch.tokens.end());
  for (Token& token : tokens_) {
    if (token < 0) token = chosen_[static_cast<size_t>(-1 - token)].token;
  }
  expect(choices);
  if (status_) {
    try {
      status_ = queue(*models_[static_cast<size_t>(model)], batch, forward);
    } catch (const std::bad_alloc&) {
      outputs_ = {};
      status_ = Error{ErrorKind::memory, "out_of_device_memory", "a step does not fit the device's workspace", ""};
    }
  }
  running_ = true;
  return static_cast<Ticket>(++ticket_);
}

Outputs& CudaBackend::outputs([[maybe_unused]] Ticket ticket) {
  assert(static_cast<int64_t>(ticket) == ticket_);
  return outputs_;
}

int64_t CudaBackend::page_bytes(ModelId model, int32_t) const {
  return models_[static_cast<size_t>(model)]->page_bytes;
}

void CudaBackend::read_page(ModelId model, int32_t, Page page, std::span<std::byte> out) {
  const OpenModel& open = *models_[static_cast<size_t>(model)];
  stream_.check(cudaMemcpyAsync(out.data(), open.cache.data() + page * open.page_bytes, out.size(),
                                cudaMemcpyDeviceToHost, stream_.handle));
  stream_.check(cudaStreamSynchronize(stream_.handle));
}

void CudaBackend::write_page(ModelId model, int32_t, Page page, std::span<const std::byte> bytes) {
  const OpenModel& open = *models_[static_cast<size_t>(model)];
  stream_.check(cudaMemcpyAsync(open.cache.data() + page * open.page_bytes, bytes.data(), bytes.size(),
                                cudaMemcpyHostToDevice, stream_.handle));
  stream_.check(cudaStreamSynchronize(stream_.handle));
}

}  // namespace cuda
}  // namespace martlet
