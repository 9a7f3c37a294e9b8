#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>

namespace martlet {

// What steps cost here: measured seconds by the number of rows and the tokens that a row attends to on average, kept
// for each model on a backend, drafting ones too, and updated by every step. Rows are told apart up to 16 and by
// quarter octaves above; contexts by octaves.
class CostTable {
 public:
  void observe(int32_t rows, int32_t context, double seconds);

  // Expected seconds of a step: between measured numbers of rows by a straight line, above the largest in proportion,
  // below the smallest as much as that. Rows that were never seen at this context take the nearest context's time.
  // Nothing before the first observation.
  std::optional<double> seconds(int32_t rows, int32_t context) const;

  // Whether a step of so many rows or fewer was ever seen: if not, seconds() can only guess high.
  bool knows(int32_t rows) const { return rows >= fewest_; }

 private:
  struct Cell {
    double rows = 0, seconds = 0;  // smoothed
    int32_t count = 0;
  };
  static constexpr size_t kExactRows = 16, kRowBuckets = kExactRows + 4 * 12, kContextBuckets = 14;

  static size_t row_bucket(int32_t rows);
  static size_t context_bucket(int32_t context);
  const Cell* nearest(size_t row_bucket, size_t context_bucket) const;

  std::array<std::array<Cell, kContextBuckets>, kRowBuckets> cells_{};
  int32_t fewest_ = std::numeric_limits<int32_t>::max();
};

}  // namespace martlet
