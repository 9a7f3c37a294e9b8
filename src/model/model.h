#pragma once

// A model that is open on a backend: its weights uploaded, ready to compute steps. An architecture derives from it and
// writes its forward pass with the backend's operators (arch/).

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "backend/backend.h"
#include "base/error.h"
#include "model/hyperparameters.h"

namespace martlet {

class Model {
 public:
  // Opens the model on `backend` with `pages` cache pages and uploads its weights, which stay borrowed from `file`.
  // Errors: ErrorKind::model (`bad_tensor` by name, formats that do not compute), ::memory from the backend.
  static Result<std::unique_ptr<Model>> create(std::shared_ptr<const ModelFile> file, const Hyperparameters& h,
                                               Backend& backend, int32_t pages, CacheType cache_type = CacheType::f16);
  virtual ~Model() = default;

  // Logits of the batch's output rows. Called inside Backend::submit.
  virtual Outputs forward(Backend& backend) const = 0;

  // Errors: ErrorKind::io, `model_file_changed`, once the file that the weights are read from is not what was opened
  // any more: what was computed from them is not to be believed. Cheap enough to ask after every step.
  Status intact() const;

  ModelId id() const { return id_; }
  const Hyperparameters& hyperparameters() const { return hyperparameters_; }

 protected:
  Model() = default;

 private:
  Hyperparameters hyperparameters_;
  std::shared_ptr<const ModelFile> file_;
  std::deque<std::vector<float>> computed_;  // tables that the backend borrows and no file holds
  ModelId id_{};
};

// Bytes of the file or files that hold the model.
int64_t mapped_bytes(const ModelFile& file);

// Bytes that the weights take where the backend keeps them: in the file, or on its device.
int64_t weight_bytes(const ModelFile& file, const Backend& backend);

// Bytes of the weights that decoding one token reads: every matrix and vector but the embedding table, which counts
// only where it is the output head too.
int64_t bytes_read_per_token(const ModelFile& file);
// The same of what the backend keeps of them.
int64_t bytes_read_per_token(const ModelFile& file, const Backend& backend);
// Bytes of the copies of matrices that the backend makes where there is room.
int64_t copy_bytes(const ModelFile& file, const Backend& backend);
// Values of the matrices that a token is multiplied with: in the layers, and in the head where its logits are wanted.
struct MatrixValues {
  int64_t layers = 0, head = 0;
};
MatrixValues matrix_values(const ModelFile& file);

}  // namespace martlet
