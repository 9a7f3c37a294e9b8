#pragma once

#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

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

// Answers that have ended, in one text, so that what a sequence says can be found in what was said before. An answer is
// found by sequences of its own scope only: nobody can tell from the speed of an answer what others were told.
class AnswerIndex {
 public:
  // Keeps the latest answers of `limit` tokens in all, and up to as many older ones.
  explicit AnswerIndex(int32_t limit) : limit_(limit) {}

  void add(int64_t scope, std::span<const Token> answer);
  SuffixIndex::Match find(int64_t scope, std::span<const Token> tokens) const;
  // What followed a match, as far as its answer goes.
  std::span<const Token> after(const SuffixIndex::Match& match) const;

 private:
  struct Key {
    int64_t scope;
    Token first, second;
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    size_t operator()(const Key& key) const;
  };
  static constexpr Token kEnd = -1;  // behind each answer

  void append(int64_t scope, std::span<const Token> answer);

  const int32_t limit_;
  std::vector<Token> text_;
  std::vector<std::pair<int64_t, int32_t>> answers_;  // scope and where it ends, the mark behind it included
  std::unordered_map<Key, int32_t, Hash> latest_;     // see SuffixIndex
  std::vector<int32_t> earlier_;
};

// Drafts what followed the last time. Costs nothing; right wherever a text repeats itself, its prompt, or with
// `history` (tokens that are kept of ended answers) an earlier answer.
class NgramDrafter final : public Drafter {
 public:
  explicit NgramDrafter(int32_t history = 0) : answers_(history), history_(history) {}

  std::string_view name() const override { return "ngram"; }
  bool free() const override { return true; }
  Status draft(std::span<DraftTask> tasks, DraftGate gate, double seconds) override;
  void forget(RequestId sequence) override { indices_.erase(sequence); }
  void keep(int64_t scope, std::span<const Token> answer) override {
    if (history_ > 0) answers_.add(scope, answer);
  }

 private:
  std::unordered_map<RequestId, SuffixIndex> indices_;
  AnswerIndex answers_;
  const int32_t history_;
};

}  // namespace martlet
