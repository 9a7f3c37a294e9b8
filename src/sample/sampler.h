#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "backend/batch.h"
#include "martlet/request.h"

namespace martlet {

// How one sequence draws its tokens: the seed, and the changes of logits that penalties and biases ask for, kept up to
// date token by token so that a step never looks back over the sequence.
class Sampler {
 public:
  // `fresh_seed` is used when the parameters bring none. `parameters` have been validated.
  Sampler(const SamplingParameters& parameters, uint64_t fresh_seed);

  void add_prompt(std::span<const Token> tokens);  // once, before any output
  void add_output(Token token);

  // For the next token. The list of adjustments is borrowed until the next add.
  Choice next() const;
  // For the token after `drafts`, as if they had been added: the random number and the adjustments, bit for bit, that
  // next() gives once they are. Where drafts change the adjustments, they are borrowed from `storage`.
  Choice after(std::span<const Token> drafts, std::vector<Adjust>& storage) const;
  // The parameters brought a seed: the same text is owed however it is computed.
  bool seeded() const { return parameters_.seed.has_value(); }
  bool greedy() const { return parameters_.temperature < kGreedyTemperature; }

 private:
  size_t entry(Token token);
  bool penalises_output() const;
  void penalise(Adjust& adjust, bool first) const;  // for one more occurrence in the output

  const SamplingParameters parameters_;
  uint64_t seed_;
  uint64_t draws_ = 0;  // tokens drawn so far: a preempted sequence goes on with the same random numbers
  std::vector<Adjust> adjust_;
  std::unordered_map<Token, size_t> entries_;  // into adjust_
  std::unordered_set<Token> seen_;             // in the output
};

}  // namespace martlet
