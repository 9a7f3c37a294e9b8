#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace martlet {

enum PreTokenizerFlags : uint8_t {
  kTakesWholePieces = 1,  // a piece that is itself in the vocabulary is taken whole, whatever the merges say
  kAddsBos = 2,           // unless the file says otherwise
  kCharacters = 4,  // merges characters, not bytes; spaces are written as U+2581, what has no token as byte tokens
};

struct PreTokenizerRow {
  std::string_view name;                     // the value of tokenizer.ggml.pre
  std::span<const char* const> expressions;  // applied one after the other
  uint8_t flags = 0;
};

std::span<const PreTokenizerRow> pre_tokenizer_rows();
const PreTokenizerRow* find_pre_tokenizer(std::string_view name);  // null when unknown

}  // namespace martlet
