#pragma once

#include <memory>
#include <unordered_map>

#include "draft/drafter.h"

namespace martlet {

// Where in a growing text its own end has stood before: hash chains over pairs of tokens, as in LZ77 (Ziv, Lempel
// 1977). Adding a token and looking one up take constant time.
class SuffixIndex {
 public:
  struct Match {
    int32_t next = 0;    // position after the earlier occurrence
    int32_t length = 0;  // tokens before it that are those at the end; 0: none
  };
  static constexpr int32_t kShortest = 2, kLongest = 32;

  void extend(std::span<const Token> tokens);  // the whole text; what was there before has not changed
  // The longest earlier occurrence of the text's end, the latest of several.
  Match find(std::span<const Token> tokens) const;

 private:
  static uint64_t key(std::span<const Token> tokens, int32_t end);

  std::unordered_map<uint64_t, int32_t> latest_;  // pair -> position after its latest occurrence but the text's own end
  std::vector<int32_t> earlier_;                  // [position] the one before it with the same pair; 0: none
  int32_t indexed_ = kShortest;                   // pairs that end before this position are in the chains
};

// Drafts what followed the last time. Costs nothing; right wherever a text repeats itself or its prompt.
class NgramDrafter final : public Drafter {
 public:
  std::string_view name() const override { return "ngram"; }
  bool free() const override { return true; }
  Status draft(std::span<DraftTask> tasks, DraftGate gate) override;
  void forget(RequestId sequence) override { indices_.erase(sequence); }

 private:
  std::unordered_map<RequestId, SuffixIndex> indices_;
};

}  // namespace martlet
