#pragma once

// Runs the same operators on two backends and compares what comes out.

#include <cstdio>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "../unit/rows.h"
#include "backend/backend.h"

namespace martlet::gpu {

struct Tally {
  int checks = 0, failed = 0;
  // Prints what fails, and what does not when it says something.
  void expect(bool good, const std::string& name, const std::string& detail);
};

struct Upload {
  std::vector<TensorView> views, bias = {};
};
using Forward = std::function<Tensor(Backend&, std::span<const Weight>)>;

// The step's logits as the host reads them, one row for each output.
std::vector<float> logits_of(Backend& backend, Ticket ticket);

// A model of a few operators, open on a backend.
class Open {
 public:
  Open(Backend& backend, const CacheGroup& group, std::span<const Upload> uploads);
  ~Open() { backend_.close(model_); }
  // As a whole model is: with graphs, and copies where the backend was given memory for them.
  bool prepare(const Forward& forward);
  // What `forward` returns, as f32. Empty when the step fails.
  std::vector<float> run(const Rows& rows, const Forward& forward);
  // The same with a choice for each row; `chosen` receives the answers.
  std::vector<float> run(const Rows& rows, const Forward& forward, std::span<const Choice> choices,
                         std::span<Chosen> chosen);

 private:
  Backend& backend_;
  ModelId model_{};
  std::vector<Weight> weights_;
};

// |a - b| / |b| in the Euclidean norm; NaN when a holds NaN or the sizes differ.
double relative_error(std::span<const float> a, std::span<const float> b);

std::vector<float> random_floats(size_t count, uint32_t seed, float spread = 1);
// A matrix of random codes with scales that give values of about one. Keeps its bytes.
struct Matrix {
  std::vector<std::byte> bytes;
  TensorView view;
};
Matrix random_matrix(Format format, int64_t columns, int64_t rows, uint32_t seed);
TensorView view_of(const std::vector<float>& values, int64_t columns);

// `copies`: the backend was given memory for copies of weights.
void check_linear(Backend& cpu, Backend& cuda, bool copies, Tally& tally);
// `brief`: a few shapes, with halves and q8 alone.
void check_attention(Backend& cpu, Backend& cuda, bool brief, Tally& tally);
// Tokens that are drawn, held to those of the host from the same logits and to their distribution.
void check_draws(Backend& cuda, Tally& tally);
void check_golden(const std::string& folder, Backend& cuda, Tally& tally);
// `reference`: made from the reference vectors by tools/gpu_check.
void check_reference(const std::string& model, const std::string& reference, CacheType type, Backend& cuda,
                     Tally& tally);
// On a backend that is invariant: a prompt in chunks, alone and in a batch, has the bits that it has whole.
void check_invariance(const std::string& model, Backend& cuda, Tally& tally);
// What loading a model and its widest steps take of the device, held to what a plan adds up.
void check_memory(const std::string& model, Tally& tally);
// A model file on both backends, and the same bits alone and in a batch.
void check_model(const std::string& model, Backend& cpu, Backend& cuda, Tally& tally);

}  // namespace martlet::gpu
