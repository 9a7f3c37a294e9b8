#pragma once

// How one token is drawn from one row of logits, on the host: the order of application that batch.h documents.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "backend/batch.h"
#include "backend/excerpt.h"

namespace martlet {

// What a random number is for: numbers of different streams have nothing in common, whatever their seed and draw.
enum class Stream : uint64_t {
  draw = 0,
  draft = 0x6a09e667f3bcc908,
  accept = 0xbb67ae8584caa73b,
  residual = 0x3c6ef372fe94f82b,
};

// Uniform in [0, 1): a hash of (seed, draw), so that no draw depends on what else was drawn or shares the batch.
double uniform(uint64_t seed, uint64_t draw, Stream stream = Stream::draw);

// Whether an excerpt of the row is enough: nothing but temperature, top-k, top-p, min-p and a draw, and no more wanted
// candidates than it holds.
bool takes_excerpt(const Choice& choice, int64_t vocabulary);

// Chooses tokens; keeps the memory that this takes between calls. One for each thread.
class Chooser {
 public:
  // `logits`: one row, not modified. `top` holds max(choice.top, 0) entries and receives the best tokens, best first;
  // more than the vocabulary has: the rest are {-1, -infinity}. A temperature too small to tell the largest logits
  // apart is greedy. token is -1 when mask and adjustments leave none.
  Chosen choose(std::span<const float> logits, const Choice& choice, std::span<TokenLogprob> top);
  // What choose() would draw from the row of a choice that takes an excerpt; none where the candidates cannot be shown
  // to be enough. The same token where the excerpt's sums are choose()'s own (excerpt.h), unless the weight of the most
  // likely tokens comes within rounding, 1e-12, of what top-p keeps.
  std::optional<Token> draw(const Excerpt& excerpt, const Sampling& sampling);

 private:
  struct Candidate {
    Token token;
    float logit;
    double weight;  // exp((logit - largest) / temperature)
    double key;     // what a filter sorts by, ascending
  };
  struct Scan {
    float largest;
    bool invalid;  // holds NaN or +infinity
  };

  Scan scan(std::span<const float> logits);
  Token first_of(std::span<const float> logits, float value) const;
  void collect(std::span<const float> logits, float threshold);
  void collect_best(std::span<const float> logits, int64_t count);
  void keep_best(size_t count);
  void write_top(std::span<const float> logits, double normalizer, std::span<TokenLogprob> top);
  std::span<const float> adjusted(std::span<const float> logits, const Choice& choice);
  bool filter(std::span<const float> logits, float largest, const Sampling& sampling);
  Token draw(std::span<const float> logits, float largest, const Sampling& sampling);
  Token verify(std::span<const float> logits, float largest, const Choice& choice);
  double probability_of(Token token, std::span<const float> logits, float largest, const Sampling& sampling);
  Token draw_candidate(double u) const;
  Token draw_from_all(std::span<const float> logits, float largest, const Sampling& sampling);
  double weigh_all(std::span<const float> logits, float largest, float temperature);
  double weigh_candidates(float largest, float temperature);
  void keep_typical(double total, float mass);
  void narrow(const Sampling& sampling, double total);
  double weight_of_candidates() const;
  void keep_mass(double wanted);

  std::vector<float> adjusted_, block_largest_, thresholds_;
  std::vector<double> block_weights_, group_weights_;
  std::vector<Candidate> candidates_, ranked_;  // in the order of tokens; as a filter likes
};

}  // namespace martlet
