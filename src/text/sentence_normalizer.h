#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace martlet {

// SentencePiece's normalisation: characters and sequences replaced by the model's own table, spaces, the artificial
// first space.
class SentenceNormalizer {
 public:
  // `charsmap`: the compiled table (normalizer_spec.precompiled_charsmap), may be empty. `removes_extra_spaces`: spaces
  // at both ends go, and one is left of a run of them. Errors: "bad_vocab".
  static Result<SentenceNormalizer> create(std::string_view charsmap, bool removes_extra_spaces);

  // Appends `text` normalised, with U+2581 for spaces, with one in front when `prefix` and there is any text.
  void append(std::string_view text, bool prefix, std::string& out) const;

 private:
  // The longest beginning of `text` that the table replaces: its length (0 when there is none) and the replacement.
  struct Replacement {
    size_t length = 0;
    std::string_view text;
  };
  Replacement find(std::string_view text) const;

  // The table is a double array trie as Darts-clone packs it, 32 bits a unit: bits 0-7 and 31 label, bit 8 "a value
  // hangs below", bits 10-30 offset to the children, times 256 when bit 9 is set; a value unit holds an offset into
  // replacements_, where zero-terminated strings stand.
  std::vector<uint32_t> units_;
  std::string replacements_;
  bool removes_extra_spaces_ = false;
};

}  // namespace martlet
