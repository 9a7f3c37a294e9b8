#include "sample/sampler.h"

#include <algorithm>

namespace martlet {

Sampler::Sampler(const SamplingParameters& parameters, uint64_t fresh_seed)
    : parameters_(parameters), seed_(parameters.seed.value_or(fresh_seed)) {
  for (const auto& [token, bias] : parameters.logit_bias) adjust_[entry(token)].subtract -= bias;
}

size_t Sampler::entry(Token token) {
  const auto [found, added] = entries_.try_emplace(token, adjust_.size());
  if (added) adjust_.push_back({token});
  return found->second;
}

void Sampler::add_prompt(std::span<const Token> tokens) {
  if (parameters_.repetition_penalty == 1) return;
  for (const Token token : tokens) adjust_[entry(token)].divide = parameters_.repetition_penalty;
}

bool Sampler::penalises_output() const {
  return parameters_.repetition_penalty != 1 || parameters_.presence_penalty != 0 || parameters_.frequency_penalty != 0;
}

void Sampler::penalise(Adjust& adjust, bool first) const {
  adjust.divide = parameters_.repetition_penalty;
  adjust.subtract += parameters_.frequency_penalty + (first ? parameters_.presence_penalty : 0);
}

void Sampler::add_output(Token token) {
  ++draws_;
  if (!penalises_output()) return;
  const size_t at = entry(token);
  const bool first = seen_.insert(token).second;
  penalise(adjust_[at], first);
}

Choice Sampler::next() const {
  Choice choice;
  choice.sampling = {.temperature = parameters_.temperature,
                     .top_k = parameters_.top_k,
                     .top_p = parameters_.top_p,
                     .min_p = parameters_.min_p,
                     .typical_p = parameters_.typical_p,
                     .seed = seed_,
                     .draw = draws_};
  choice.adjust = adjust_;
  return choice;
}

Choice Sampler::after(std::span<const Token> drafts, std::vector<Adjust>& storage) const {
  Choice choice = next();
  choice.sampling.draw += drafts.size();
  if (drafts.empty() || !penalises_output()) return choice;
  storage = adjust_;
  for (size_t i = 0; i < drafts.size(); ++i) {
    const Token token = drafts[i];
    const std::span<const Token> earlier = drafts.first(i);
    const bool drafted = std::find(earlier.begin(), earlier.end(), token) != earlier.end();
    const auto known = entries_.find(token);
    size_t at = known == entries_.end() ? adjust_.size() : known->second;
    if (known == entries_.end())
      while (at < storage.size() && storage[at].token != token) ++at;
    if (at == storage.size()) storage.push_back({token});
    penalise(storage[at], !drafted && !seen_.contains(token));
  }
  choice.adjust = storage;
  return choice;
}

}  // namespace martlet
