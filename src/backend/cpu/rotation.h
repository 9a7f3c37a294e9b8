#pragma once

#include <span>
#include <vector>

#include "backend/backend.h"
#include "backend/cpu/step_memory.h"

namespace martlet::cpu {

// Sines and cosines of a step's rows (RoPE, Su et al. 2021), shared by the layers whose frequencies are the same.
// A row holds `size` cosines and `size` sines with their signs, in the order of the values that they multiply: for
// pairs (x, y) the turn is x cos - y sin, y cos + x sin.
struct Rotation {
  Weight frequencies;
  float magnitude;
  bool interleaved;
  int64_t size;
  Block table;

  bool serves(const Attention& a) const {
    return frequencies.id == a.rope_frequencies.id && magnitude == a.rope_magnitude &&
           interleaved == a.rope_interleaved;
  }
  float* cosines(int64_t row) const { return table.floats() + row * 2 * size; }
  float* sines(int64_t row) const { return cosines(row) + size; }

  // Without a table: what `attention` asks for, given the values of its frequencies.
  static Rotation of(const Attention& attention, std::span<const float> frequencies);
  int64_t row_bytes() const { return 2 * size * static_cast<int64_t>(sizeof(float)); }
  void fill_row(int64_t row, int32_t position, std::span<const float> frequencies) const;
};

}  // namespace martlet::cpu
