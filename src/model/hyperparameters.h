#pragma once

// The sizes and constants of a model, read from a file's metadata and checked before anything is computed with them.

#include <cstdint>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "base/error.h"
#include "file/model_file.h"

namespace martlet {

// How positions beyond the training length are brought back into it. `linear` divides them; `yarn` divides only the
// slow rotations (Peng et al., "YaRN: Efficient Context Window Extension of Large Language Models", 2023).
struct RopeScaling {
  enum class Kind { none, linear, yarn } kind = Kind::none;
  double factor = 1;
  int32_t original_context = 0;
  double attention_factor = 1;  // multiplies YaRN's own magnitude
  double extrapolation = 1;     // share of the fast rotations that YaRN leaves alone
  double beta_fast = 32,
         beta_slow = 1;  // rotations over the original context: above fast untouched, below slow divided
};

struct Hyperparameters {
  std::string architecture;
  int32_t layers = 0, width = 0, ffn = 0;
  int32_t heads = 0, kv_heads = 0, key_size = 0, value_size = 0;
  int32_t context = 0;     // tokens that the model was trained for
  int32_t vocabulary = 0;  // rows of the embedding table
  float norm_epsilon = 0;
  int32_t rotated = 0;  // leading values of each head that RoPE turns; even
  double rope_base = 0;
  RopeScaling rope_scaling;
};

// Errors: ErrorKind::model, `unsupported_architecture` (with the list of those that work), `bad_hparam` with the key,
// `bad_tensor` when there is no embedding table.
Result<Hyperparameters> read_hyperparameters(const ModelFile& file);

// The caches that the model's layers share, with room for `pages` pages each.
std::vector<CacheGroup> cache_groups(const Hyperparameters& h, CacheType type, int32_t pages);

StepWidths step_widths(const Hyperparameters& h);

}  // namespace martlet
