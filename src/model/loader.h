#pragma once

// Reads the tensors of a model by name, checks their shapes and uploads them. The first error is kept and everything
// after it does nothing, so an architecture reads as a plain list of its tensors.

#include <deque>
#include <initializer_list>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "backend/backend.h"
#include "file/model_file.h"
#include "model/blocks.h"
#include "model/hyperparameters.h"

namespace martlet {

enum class Bias { none, optional, required };
enum class RopePairs { interleaved, halves };

// Part of a stack: `rows` rows from the tensor `name`.weight.
struct Segment {
  const char* name;
  int64_t rows;
};

class Loader {
 public:
  Loader(const ModelFile& file, const Hyperparameters& h, Backend& backend, ModelId model)
      : file_(file), h_(h), backend_(backend), model_(model) {}

  const Hyperparameters& hyperparameters() const { return h_; }
  bool has(const std::string& name) const { return file_.tensor(name) != nullptr; }

  // Names are without ".weight"; those of a layer start with layer_prefix(i).
  Norm norm(const std::string& name, int64_t size);
  Weight matrix(const std::string& name, int64_t columns, int64_t rows, Bias bias = Bias::none);
  // Matrices with the same columns, one above the other.
  Weight stack(const std::string& prefix, std::initializer_list<Segment> segments, int64_t columns,
               Bias bias = Bias::none);
  // Radians a position for each rotated pair, with the file's own factors when it has them.
  Weight rope_frequencies();

  // The output matrix, or the embedding table where the model ties the two.
  Weight head(Weight embedding);

  // The parts of a layer that every architecture here has under the same names.
  Weight qkv(const std::string& prefix, Bias bias);
  Attention attention(int32_t layer, Weight frequencies, RopePairs pairs) const;
  FeedForward feed_forward(const std::string& prefix, Bias bias);

  // The first error; else an error when the file holds tensors that nobody asked for: the model would not be what it
  // says.
  Status finish() const;
  std::deque<std::vector<float>> take_computed() { return std::move(computed_); }

 private:
  const TensorView* find(const std::string& name, const std::array<int64_t, 4>& shape);
  std::vector<TensorView> biases(const std::string& prefix, std::span<const Segment> segments, Bias bias);
  Weight upload(std::span<const TensorView> views, std::span<const TensorView> bias, const std::string& name);
  void fail(const char* text, const std::string& name);

  const ModelFile& file_;
  const Hyperparameters& h_;
  Backend& backend_;
  ModelId model_;
  std::optional<Error> error_;
  std::unordered_set<std::string> used_;
  std::deque<std::vector<float>> computed_;
};

inline std::string layer_prefix(int32_t layer) {
  return "blk." + std::to_string(layer) + ".";
}

}  // namespace martlet
