#pragma once

// Checks of the matrix kernels without a test framework: the GoogleTest cases and the plain program that runs under an
// emulator (tests/neon) share them.

#include <cstdint>
#include <string>
#include <vector>

#include "backend/cpu/isa/level.h"
#include "tensor/format.h"

namespace martlet::cpu {

enum class Values {
  ordinary,  // scales around 0.01, activations around 1
  extreme,   // every code byte 0x00 or 0xff, activations at their limits
  denormal,  // scales that are subnormal halves
  zero,      // all scales zero, and an all-zero activation row
};

struct LinearCase {
  Format format;
  int64_t outputs, columns, rows;
  Values values = Values::ordinary;
  bool bias = false, residual = false;
  uint32_t seed = 1;

  std::string name() const;
};

// A matrix and its activations. The matrix ends where an unreadable page begins, so that reading past it is caught.
class LinearData {
 public:
  explicit LinearData(const LinearCase& c);
  ~LinearData();
  LinearData(const LinearData&) = delete;
  LinearData& operator=(const LinearData&) = delete;

  const LinearCase& shape() const { return case_; }
  std::vector<float>& x() { return x_; }
  const std::byte* weights() const { return weights_; }
  int64_t row_bytes() const;

  // y[row][output] of one level, computed in calls of `chunk` outputs each, at most `batch` rows a call.
  std::vector<float> run(const Level& level, int64_t chunk, int64_t batch) const;
  // The same in double precision from dequantized weights and the activations as they were quantized; `magnitude`
  // receives the sums of absolute products.
  std::vector<double> reference(std::vector<double>& magnitude) const;

 private:
  void fill_weights();
  void fill_activations();
  std::vector<double> activation_row(int64_t row) const;

  LinearCase case_;
  std::byte* mapping_ = nullptr;
  std::byte* weights_ = nullptr;
  size_t mapped_ = 0;
  std::vector<float> x_, bias_, residual_;
};

inline constexpr int64_t kLinearCheckRows[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 32, 33, 100};
inline constexpr int64_t kLinearCheckOutputs[] = {1,  2,  3,  4,  5,  7,  8,  9,  15, 16,
                                                  17, 31, 32, 33, 47, 48, 63, 64, 65, 70};

std::vector<Format> computing_formats();
int64_t block_columns(Format format);

// Each returns what is wrong, or nothing.
std::string check_against_reference(const LinearCase& c);
std::string check_levels_agree(const LinearCase& c);  // all levels, chunks and batch sizes have the same bits
std::string check_not_finite(Format format);  // NaN and infinity in an activation row make that row NaN, and no other

// All of it over all formats and shapes; calls report(text) for each failure and returns how many checks ran.
int64_t run_all_linear_checks(void (*report)(const std::string& text));

}  // namespace martlet::cpu
