#include "model/model.h"

#include <algorithm>

#include "base/function_ref.h"
#include "model/architectures.h"
#include "model/loader.h"

namespace martlet {
namespace {

// Over what decoding one token reads: the embedding table counts only where it is the output head too.
int64_t sum_of_products(const ModelFile& file, FunctionRef<int64_t(const TensorView&)> bytes_of) {
  const bool tied = file.tensor("output.weight") == nullptr;
  int64_t bytes = 0;
  for (const NamedTensor& tensor : file.tensors())
    if (tied || tensor.name != "token_embd.weight") bytes += bytes_of(tensor.view);
  return bytes;
}

}  // namespace

Result<std::unique_ptr<Model>> Model::create(std::shared_ptr<const ModelFile> file, const Hyperparameters& h,
                                             Backend& backend, int32_t pages, CacheType cache_type) {
  MARTLET_ASSIGN(const ModelId id, backend.open(cache_groups(h, cache_type, pages)));
  Loader load(*file, h, backend, id);
  std::unique_ptr<Model> model = find_architecture(h.architecture)(load);
  if (Status status = load.finish(); !status) {
    backend.close(id);
    return status.error();
  }
  model->hyperparameters_ = h;
  model->file_ = std::move(file);
  model->computed_ = load.take_computed();
  model->id_ = id;
  if (Status status = backend.prepare(id, [&] { return model->forward(backend); }); !status) {
    backend.close(id);
    return status.error();
  }
  return model;
}

Status Model::intact() const {
  if (!file_ || file_->unchanged()) return {};
  return Error{ErrorKind::io, "model_file_changed",
               "the model file was changed or cut short while in use; load it again", file_->path()};
}

int64_t mapped_bytes(const ModelFile& file) {
  int64_t bytes = 0;
  for (const auto& mapped : file.files()) bytes += static_cast<int64_t>(mapped->bytes().size());
  return bytes;
}

int64_t weight_bytes(const ModelFile& file, const Backend& backend) {
  if (!backend.device_memory()) return mapped_bytes(file);
  int64_t bytes = 0;
  for (const NamedTensor& tensor : file.tensors()) bytes += backend.weight_bytes(tensor.view);
  return bytes;
}

int64_t bytes_read_per_token(const ModelFile& file) {
  return sum_of_products(file, [](const TensorView& view) { return view.bytes(); });
}

int64_t bytes_read_per_token(const ModelFile& file, const Backend& backend) {
  return sum_of_products(file, [&](const TensorView& view) { return backend.weight_read_bytes(view); });
}

int64_t copy_bytes(const ModelFile& file, const Backend& backend) {
  return sum_of_products(file, [&](const TensorView& view) { return backend.copy_bytes(view); });
}

MatrixValues matrix_values(const ModelFile& file) {
  const std::string_view head = file.tensor("output.weight") ? "output.weight" : "token_embd.weight";
  MatrixValues out;
  for (const NamedTensor& tensor : file.tensors()) {
    const int64_t values = tensor.view.rows() > 1 ? tensor.view.rows() * tensor.view.columns() : 0;
    if (tensor.name == head) out.head += values;
    if (tensor.name.starts_with("blk.")) out.layers += values;
  }
  return out;
}

}  // namespace martlet
