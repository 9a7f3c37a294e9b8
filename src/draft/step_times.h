#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace martlet {

// Measured seconds of a step by its number of rows, smoothed. Between measured numbers it is interpolated, above the
// largest it grows in proportion to the rows.
class StepTimes {
 public:
  void record(int32_t rows, double seconds);
  // 0 while nothing is known of `rows` or fewer.
  double operator()(int32_t rows) const;

 private:
  // Exact where a row more or less decides, coarser above.
  static constexpr std::array<int32_t, 32> kRows = {1,  2,  3,   4,   5,   6,   7,   8,   9,    10,  11,
                                                    12, 13, 14,  15,  16,  20,  24,  28,  32,   40,  48,
                                                    64, 96, 128, 192, 256, 384, 512, 768, 1024, 2048};
  struct Cell {
    double seconds = 0;
    int32_t samples = 0;
  };
  static size_t cell_of(int32_t rows);

  std::array<Cell, kRows.size()> cells_{};
};

}  // namespace martlet
