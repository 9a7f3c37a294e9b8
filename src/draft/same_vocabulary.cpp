#include "draft/same_vocabulary.h"

#include <algorithm>
#include <limits>
#include <string>

#include <fmt/format.h>

namespace martlet {
namespace {

constexpr const char *kTokens = "tokenizer.ggml.tokens", *kTypes = "tokenizer.ggml.token_type";
constexpr int64_t kUnused = 5;  // GGUF's token type of ids that pad the embedding table

Error differs(std::string what) {
  return {ErrorKind::usage, "draft_vocabulary",
          "the draft model has another vocabulary: " + std::move(what) + "; take a draft model of the same family",
          "--draft"};
}

size_t first_used(const ModelFile& file, size_t from, size_t to) {
  const NumberArray* types = file.numbers(kTypes);
  while (from < to && types && from < types->size && types->integer(from) == kUnused) ++from;
  return from;
}

}  // namespace

Status same_vocabulary(const ModelFile& target, const ModelFile& draft) {
  const StringArray *ours = target.strings(kTokens), *theirs = draft.strings(kTokens);
  if (!ours || !theirs) return differs("one of the files holds none");
  if (target.string("tokenizer.ggml.model") != draft.string("tokenizer.ggml.model"))
    return differs("the tokenizers are of different kinds");
  const size_t both = std::min(ours->size(), theirs->size());
  const auto difference =
      std::mismatch(ours->begin(), ours->begin() + static_cast<std::ptrdiff_t>(both), theirs->begin());
  const auto at = static_cast<size_t>(difference.first - ours->begin());
  if (at < both) return differs(fmt::format("token {} is the first that differs", at));
  const bool more_ours = ours->size() > both;
  const size_t extra = first_used(more_ours ? target : draft, both, std::max(ours->size(), theirs->size()));
  if (extra < std::max(ours->size(), theirs->size()))
    return differs(fmt::format("the target has {} tokens, the draft model {}; token {} is the first that one lacks",
                               ours->size(), theirs->size(), extra));
  return {};
}

}  // namespace martlet
