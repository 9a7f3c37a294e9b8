#include "sample/draft_distribution.h"

#include <algorithm>
#include <cmath>

namespace martlet {
namespace {

void sort_by_token(std::vector<TokenProbability>& list) {
  std::sort(list.begin(), list.end(),
            [](const TokenProbability& a, const TokenProbability& b) { return a.token < b.token; });
}

// `logits` ascends by token; the probabilities are logits still.
void adjust(std::vector<TokenProbability>& logits, std::span<const Adjust> adjustments) {
  for (const Adjust& a : adjustments) {
    const auto at = std::lower_bound(logits.begin(), logits.end(), a.token,
                                     [](const TokenProbability& l, Token token) { return l.token < token; });
    if (at == logits.end() || at->token != a.token) continue;
    float& logit = at->probability;
    logit = (logit > 0 ? logit / a.divide : logit * a.divide) - a.subtract;
  }
}

void normalise(std::vector<TokenProbability>& list) {
  double sum = 0;
  for (const TokenProbability& t : list) sum += t.probability;
  for (TokenProbability& t : list) t.probability = static_cast<float>(t.probability / sum);
  std::erase_if(list, [](const TokenProbability& t) { return t.probability <= 0; });
}

// `list` descends.
void filter(std::vector<TokenProbability>& list, const Sampling& sampling) {
  if (sampling.top_k > 0 && static_cast<size_t>(sampling.top_k) < list.size())
    list.resize(static_cast<size_t>(sampling.top_k));
  normalise(list);
  double mass = 0;
  size_t kept = 0;
  while (kept < list.size() && (kept == 0 || mass < sampling.top_p)) mass += list[kept++].probability;
  list.resize(kept);
  const float least = std::min(sampling.min_p, 1.0f) * list.front().probability;
  std::erase_if(list, [&](const TokenProbability& t) { return t.probability < least; });
  normalise(list);
}

}  // namespace

std::vector<TokenProbability> draft_distribution(std::span<const TokenLogprob> best, const Choice& choice) {
  std::vector<TokenProbability> list;
  for (const TokenLogprob& t : best)
    if (t.token >= 0) list.push_back({t.token, t.logprob});
  sort_by_token(list);
  adjust(list, choice.adjust);
  std::sort(list.begin(), list.end(), [](const TokenProbability& a, const TokenProbability& b) {
    return a.probability != b.probability ? a.probability > b.probability : a.token < b.token;
  });
  if (list.empty() || !std::isfinite(list.front().probability)) return {};
  const double largest = list.front().probability;
  for (TokenProbability& t : list)
    t.probability = static_cast<float>(std::exp((t.probability - largest) / choice.sampling.temperature));
  filter(list, choice.sampling);
  sort_by_token(list);
  return list;
}

Token draw(std::span<const TokenProbability> q, double u) {
  double left = u;
  for (const TokenProbability& t : q) {
    if (left < t.probability) return t.token;
    left -= t.probability;
  }
  return q.back().token;  // rounding left a little behind
}

}  // namespace martlet
