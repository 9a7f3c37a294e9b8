#include "backend/choose.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "backend/exponential.h"

namespace martlet {
namespace {

// The row is looked at in blocks: one vectorised pass finds each block's largest logit, and later passes skip the
// blocks that hold nothing above their threshold.
constexpr size_t kBlock = kWeightBlock;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Finaliser of splitmix64 (Steele, Lea, Flood 2014).
uint64_t mixed(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

size_t blocks_of(std::span<const float> logits) {
  return (logits.size() + kBlock - 1) / kBlock;
}

std::span<const float> block(std::span<const float> logits, size_t b) {
  return logits.subspan(b * kBlock, std::min(kBlock, logits.size() - b * kBlock));
}

// Index of the weight that `left` of them all falls on, and takes off what stands before it. Rounding may leave a
// little behind the last one, which takes it.
size_t fall(std::span<const double> weights, double& left) {
  size_t i = 0;
  while (i + 1 < weights.size() && left >= weights[i]) left -= weights[i++];
  return i;
}

// The token of a block of logits that `left` of its weight falls on; `otherwise` where none weighs anything.
Token draw_from_block(std::span<const float> block, Token first, double left, Token otherwise, float largest,
                      float temperature) {
  Token last = otherwise;  // rounding may leave a little behind the last one that weighs anything
  for (size_t i = 0; i < block.size(); ++i) {
    const double weight = std::exp((double{block[i]} - largest) / temperature);
    if (weight <= 0) continue;
    last = first + static_cast<Token>(i);
    if (left < weight) break;
    left -= weight;
  }
  return last;
}

bool keeps_best(const Sampling& sampling, int64_t vocabulary) {
  return sampling.top_k > 0 && sampling.top_k < vocabulary;
}

// Nothing keeps tokens from being drawn, but for top-k.
bool keeps_all(const Sampling& sampling) {
  return sampling.typical_p >= 1 && sampling.top_p >= 1 && sampling.min_p <= 0;
}

}  // namespace

double uniform(uint64_t seed, uint64_t draw, Stream stream) {
  constexpr uint64_t kGolden = 0x9e3779b97f4a7c15ULL;
  return static_cast<double>(mixed(mixed((seed ^ static_cast<uint64_t>(stream)) + kGolden) + (draw + 1) * kGolden) >>
                             11) *
         0x1p-53;
}

Chooser::Scan Chooser::scan(std::span<const float> logits) {
  block_largest_.resize(blocks_of(logits));
  Lanes all = broadcast(-kInfinity);
  LaneMask unordered = {};
  for (size_t b = 0; b < block_largest_.size(); ++b) {
    const std::span<const float> values = block(logits, b);
    Lanes largest = broadcast(-kInfinity);
    size_t i = 0;
    for (; i + kLanes <= values.size(); i += kLanes) {
      const Lanes x = load_lanes(&values[i]);
      unordered |= x != x;
      largest = x > largest ? x : largest;
    }
    float block_largest = largest_lane(largest);
    for (; i < values.size(); ++i) {
      unordered[0] |= values[i] != values[i] ? -1 : 0;
      block_largest = std::max(block_largest, values[i]);
    }
    block_largest_[b] = block_largest;
    all[b % kLanes] = std::max(all[b % kLanes], block_largest);
  }
  const float largest = largest_lane(all);
  return {largest, any(unordered) || largest == kInfinity};
}

// The smallest token whose logit is `value`, which the scanned row holds.
Token Chooser::first_of(std::span<const float> logits, float value) const {
  const size_t b =
      static_cast<size_t>(std::find(block_largest_.begin(), block_largest_.end(), value) - block_largest_.begin());
  const std::span<const float> values = block(logits, b);
  return static_cast<Token>(b * kBlock +
                            static_cast<size_t>(std::find(values.begin(), values.end(), value) - values.begin()));
}

// Candidates: every token whose logit is at least `threshold` and not -infinity.
void Chooser::collect(std::span<const float> logits, float threshold) {
  candidates_.clear();
  for (size_t b = 0; b < block_largest_.size(); ++b) {
    if (block_largest_[b] < threshold) continue;
    const std::span<const float> values = block(logits, b);
    for (size_t i = 0; i < values.size(); ++i) {
      if (values[i] >= threshold && values[i] != -kInfinity)
        candidates_.push_back({static_cast<Token>(b * kBlock + i), values[i], 0, 0});
    }
  }
}

// Candidates: the `count` largest logits, the smaller token first on a tie; in no order.
void Chooser::collect_best(std::span<const float> logits, int64_t count) {
  float threshold = -kInfinity;
  const auto wanted = static_cast<size_t>(count);
  if (wanted < block_largest_.size()) {
    // `count` blocks have a largest logit at or above this, so at least that many tokens do.
    thresholds_ = block_largest_;
    std::nth_element(thresholds_.begin(), thresholds_.begin() + (count - 1), thresholds_.end(), std::greater<>());
    threshold = thresholds_[wanted - 1];
  }
  collect(logits, threshold);
  keep_best(wanted);
}

// The `count` best candidates, in their order.
void Chooser::keep_best(size_t count) {
  if (count >= candidates_.size()) return;
  const auto before = [](const Candidate& a, const Candidate& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
  };
  ranked_ = candidates_;
  const auto last = ranked_.begin() + static_cast<int64_t>(count) - 1;
  std::nth_element(ranked_.begin(), last, ranked_.end(), before);
  std::erase_if(candidates_, [&](const Candidate& c) { return before(*last, c); });
}

// Weight of each block and group of the row, relative to the largest logit; returns their sum.
double Chooser::weigh_all(std::span<const float> logits, float largest, float temperature) {
  block_weights_.resize(blocks_of(logits));
  group_weights_.assign((block_weights_.size() + kBlocksOfGroup - 1) / kBlocksOfGroup, 0);
  for (size_t b = 0; b < block_weights_.size(); ++b) {
    block_weights_[b] = sum_of_exponentials(block(logits, b), largest, 1 / temperature);
    group_weights_[b / kBlocksOfGroup] += block_weights_[b];
  }
  double total = 0;
  for (const double weight : group_weights_) total += weight;
  return total;
}

double Chooser::weigh_candidates(float largest, float temperature) {
  double total = 0;
  for (Candidate& candidate : candidates_) {
    candidate.weight = std::exp((double{candidate.logit} - largest) / temperature);
    total += candidate.weight;
  }
  return total;
}

double Chooser::weight_of_candidates() const {
  double total = 0;
  for (const Candidate& c : candidates_) total += c.weight;
  return total;
}

// Keeps the smallest set of candidates, taken by ascending key (then token), whose weights reach `wanted`, in their
// order. Selection instead of a sort: linear in the number of candidates.
void Chooser::keep_mass(double wanted) {
  const auto before = [](const Candidate& a, const Candidate& b) {
    return a.key != b.key ? a.key < b.key : a.token < b.token;
  };
  ranked_ = candidates_;
  auto begin = ranked_.begin(), end = ranked_.end();
  double kept = 0;
  while (end - begin > 32) {
    const auto middle = begin + (end - begin) / 2;
    std::nth_element(begin, middle, end, before);
    double sum = 0;
    for (auto c = begin; c != middle; ++c) sum += c->weight;
    if (kept + sum >= wanted) {
      end = middle;
    } else {
      kept += sum;
      begin = middle;
    }
  }
  std::sort(begin, end, before);
  while (begin != end && (kept < wanted || begin == ranked_.begin())) kept += (begin++)->weight;
  if (begin == ranked_.end()) return;
  const Candidate last = *std::prev(begin);
  std::erase_if(candidates_, [&](const Candidate& c) { return before(last, c); });
}

// Locally typical sampling (Meister et al. 2022): tokens whose surprise is nearest the entropy come first.
void Chooser::keep_typical(double total, float mass) {
  double entropy = 0;
  for (const Candidate& c : candidates_) {
    if (c.weight > 0) entropy -= c.weight / total * std::log(c.weight / total);
  }
  for (Candidate& c : candidates_)
    c.key = c.weight > 0 ? std::abs(-std::log(c.weight / total) - entropy) : std::numeric_limits<double>::infinity();
  keep_mass(mass * total);
}

Token Chooser::draw_from_all(std::span<const float> logits, float largest, const Sampling& sampling) {
  double left = uniform(sampling.seed, sampling.draw) * weigh_all(logits, largest, sampling.temperature);
  const size_t first = fall(group_weights_, left) * kBlocksOfGroup;
  const size_t blocks = std::min<size_t>(kBlocksOfGroup, block_weights_.size() - first);
  const size_t b = first + fall(std::span(block_weights_).subspan(first, blocks), left);
  return draw_from_block(block(logits, b), static_cast<Token>(b * kBlock), left, first_of(logits, largest), largest,
                         sampling.temperature);
}

Token Chooser::draw_candidate(double u) const {
  double left = u * weight_of_candidates();
  Token last = candidates_.front().token;  // rounding may leave a little behind the last one that weighs anything
  for (const Candidate& c : candidates_) {
    if (c.weight <= 0) continue;
    last = c.token;
    if (left < c.weight) break;
    left -= c.weight;
  }
  return last;
}

// Leaves what the filters keep in candidates_, with weights; false where no filter is set: every token stays.
bool Chooser::filter(std::span<const float> logits, float largest, const Sampling& sampling) {
  const auto vocabulary = static_cast<int64_t>(logits.size());
  const bool best = keeps_best(sampling, vocabulary), nucleus = sampling.top_p < 1;
  if (!best && keeps_all(sampling)) return false;

  double total = 0;
  if (best) {
    collect_best(logits, sampling.top_k);
    total = weigh_candidates(largest, sampling.temperature);
  } else if (sampling.typical_p < 1) {
    collect(logits, -kInfinity);
    total = weigh_candidates(largest, sampling.temperature);
  } else {
    // What weighs less than the share of the tail that top-p drops, spread over the vocabulary, is in that tail.
    double smallest = std::max(sampling.min_p, 0.0f);
    if (nucleus) {
      total = weigh_all(logits, largest, sampling.temperature);
      smallest = std::max(smallest, (1.0 - sampling.top_p) * total / static_cast<double>(vocabulary));
    }
    collect(logits, static_cast<float>(largest + sampling.temperature * std::log(smallest * (1 - 1e-5))));
    const double collected = weigh_candidates(largest, sampling.temperature);
    if (!nucleus) total = collected;
  }
  narrow(sampling, total);
  return true;
}

// What the filters but top-k leave of the candidates, of `total` weight before.
void Chooser::narrow(const Sampling& sampling, double total) {
  if (sampling.typical_p < 1) {
    keep_typical(total, sampling.typical_p);
    total = weight_of_candidates();
  }
  if (sampling.top_p < 1) {
    for (Candidate& c : candidates_) c.key = -c.weight;
    keep_mass(sampling.top_p * total);
  }
  if (sampling.min_p > 0) {
    double heaviest = 0;
    for (const Candidate& c : candidates_) heaviest = std::max(heaviest, c.weight);
    const double smallest = std::min(1.0f, sampling.min_p) * heaviest;
    std::erase_if(candidates_, [&](const Candidate& c) { return c.weight < smallest; });
  }
}

Token Chooser::draw(std::span<const float> logits, float largest, const Sampling& sampling) {
  if (!filter(logits, largest, sampling)) return draw_from_all(logits, largest, sampling);
  return draw_candidate(uniform(sampling.seed, sampling.draw));
}

// Leaves every token that may be drawn in candidates_ where a filter is set, and none where none is.
double Chooser::probability_of(Token token, std::span<const float> logits, float largest, const Sampling& sampling) {
  if (!filter(logits, largest, sampling)) {
    candidates_.clear();
    const double weight = std::exp((double{logits[static_cast<size_t>(token)]} - largest) / sampling.temperature);
    return weight / weigh_all(logits, largest, sampling.temperature);
  }
  const auto found =
      std::find_if(candidates_.begin(), candidates_.end(), [&](const Candidate& c) { return c.token == token; });
  return found == candidates_.end() ? 0 : found->weight / weight_of_candidates();
}

// Speculative sampling (Leviathan et al. 2023; Chen et al. 2023): what it returns has the distribution p, whatever q
// is.
Token Chooser::verify(std::span<const float> logits, float largest, const Choice& choice) {
  const Sampling& sampling = choice.sampling;
  const auto q_of = [&](Token token) -> double {
    const auto at = std::lower_bound(choice.q.begin(), choice.q.end(), token,
                                     [](const TokenProbability& a, Token wanted) { return a.token < wanted; });
    return at != choice.q.end() && at->token == token ? at->probability : 0;
  };
  const double p = probability_of(choice.draft, logits, largest, sampling);
  if (uniform(sampling.seed, sampling.draw, Stream::accept) * q_of(choice.draft) < p) return choice.draft;
  if (candidates_.empty()) {
    collect(logits, -kInfinity);
    weigh_candidates(largest, sampling.temperature);
  }
  const double total = weight_of_candidates();
  double left = 0;
  for (Candidate& c : candidates_) left += c.weight = std::max(c.weight / total - q_of(c.token), 0.0);
  // p and q are the same but for rounding.
  if (left <= 0) return choice.draft;
  return draw_candidate(uniform(sampling.seed, sampling.draw, Stream::residual));
}

std::span<const float> Chooser::adjusted(std::span<const float> logits, const Choice& choice) {
  if (choice.adjust.empty() && !choice.allowed) return logits;
  adjusted_.assign(logits.begin(), logits.end());
  for (const Adjust& adjust : choice.adjust) {
    float& logit = adjusted_[static_cast<size_t>(adjust.token)];
    logit = (logit > 0 ? logit / adjust.divide : logit * adjust.divide) - adjust.subtract;
  }
  if (choice.allowed) {
    for (size_t i = 0; i < adjusted_.size(); i += 32) {
      const uint32_t word = choice.allowed[i / 32];
      if (word == ~0u) continue;
      for (size_t bit = 0; bit < std::min<size_t>(32, adjusted_.size() - i); ++bit) {
        if (!(word >> bit & 1)) adjusted_[i + bit] = -kInfinity;
      }
    }
  }
  return adjusted_;
}

void Chooser::write_top(std::span<const float> logits, double normalizer, std::span<TokenLogprob> top) {
  if (top.empty()) return;
  collect_best(logits, static_cast<int64_t>(top.size()));
  std::sort(candidates_.begin(), candidates_.end(), [](const Candidate& a, const Candidate& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
  });
  for (size_t i = 0; i < top.size(); ++i) {
    top[i] = i < candidates_.size()
                 ? TokenLogprob{candidates_[i].token, static_cast<float>(candidates_[i].logit - normalizer)}
                 : TokenLogprob{-1, -kInfinity};
  }
}

bool takes_excerpt(const Choice& choice, int64_t vocabulary) {
  const Sampling& s = choice.sampling;
  return choice.score < 0 && choice.top < 0 && !choice.allowed && choice.adjust.empty() && choice.q.empty() &&
         s.temperature >= kGreedyTemperature && s.typical_p >= 1 &&
         s.top_k <= std::min<int64_t>(kMostCandidates, vocabulary - 1);
}

std::optional<Token> Chooser::draw(const Excerpt& excerpt, const Sampling& sampling) {
  const bool best = sampling.top_k > 0;
  if (!best && keeps_all(sampling))
    return draw_from_block(excerpt.block, excerpt.first, excerpt.left, excerpt.best, excerpt.largest,
                           sampling.temperature);
  if (excerpt.count < std::max(1, sampling.top_k) || excerpt.count > kMostCandidates) return std::nullopt;
  candidates_.clear();
  for (const TokenLogit& c : std::span(excerpt.candidates).first(static_cast<size_t>(excerpt.count)))
    candidates_.push_back({c.token, c.logit, 0, 0});
  std::ranges::sort(candidates_, {}, &Candidate::token);
  if (best) keep_best(static_cast<size_t>(sampling.top_k));
  double total = weigh_candidates(excerpt.largest, sampling.temperature);
  if (!best && sampling.top_p < 1) {
    // A little more than what is kept: sums round.
    if (total < sampling.top_p * excerpt.total * (1 + 1e-12)) return std::nullopt;
    total = excerpt.total;
  }
  narrow(sampling, total);
  return draw_candidate(uniform(sampling.seed, sampling.draw));
}

Chosen Chooser::choose(std::span<const float> logits, const Choice& choice, std::span<TokenLogprob> top) {
  Chosen chosen;
  const Scan plain = scan(logits);
  if (plain.invalid || plain.largest == -kInfinity) {
    chosen.numeric_error = true;
    std::fill(top.begin(), top.end(), TokenLogprob{-1, -kInfinity});
    return chosen;
  }
  double normalizer = 0;
  if (choice.top >= 0) {
    normalizer = plain.largest + std::log(weigh_all(logits, plain.largest, 1));
    write_top(logits, normalizer, top);
  }
  if (choice.score >= 0) {
    chosen.token = choice.score;
  } else {
    const std::span<const float> changed = adjusted(logits, choice);
    const float largest = changed.data() == logits.data() ? plain.largest : scan(changed).largest;
    if (largest == -kInfinity) return chosen;
    if (choice.sampling.temperature < kGreedyTemperature)
      chosen.token = first_of(changed, largest);
    else
      chosen.token = choice.q.empty() ? draw(changed, largest, choice.sampling) : verify(changed, largest, choice);
  }
  if (choice.top >= 0) chosen.logprob = static_cast<float>(logits[static_cast<size_t>(chosen.token)] - normalizer);
  return chosen;
}

}  // namespace martlet
