#include "sample/sampler.h"

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

void Sampler::add_output(Token token) {
  ++draws_;
  if (parameters_.repetition_penalty == 1 && parameters_.presence_penalty == 0 && parameters_.frequency_penalty == 0)
    return;
  const size_t at = entry(token);
  const bool first = seen_.insert(token).second;
  adjust_[at].divide = parameters_.repetition_penalty;
  adjust_[at].subtract += parameters_.frequency_penalty + (first ? parameters_.presence_penalty : 0);
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

}  // namespace martlet
