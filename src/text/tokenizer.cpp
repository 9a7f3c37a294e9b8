#include "text/tokenizer.h"

#include <algorithm>

#include "text/bpe_tokenizer.h"
#include "text/spm_tokenizer.h"
#include "text/unigram_tokenizer.h"
#include "text/vocabulary.h"

namespace martlet {
namespace {

struct Maker {
  std::string_view model;
  Result<std::shared_ptr<const Tokenizer>> (*make)(VocabularySource);
};
constexpr Maker kMakers[] = {
    {"gpt2", make_bpe_tokenizer},
    {"gemma4", make_bpe_tokenizer},
    {"llama", make_spm_tokenizer},
    {"t5", make_unigram_tokenizer},
};

}  // namespace

bool Tokenizer::is_stop(Token token) const {
  return std::ranges::binary_search(stop_tokens_, token);
}

Result<std::shared_ptr<const Tokenizer>> Tokenizer::create(const ModelFile& file) {
  MARTLET_ASSIGN(VocabularySource source, read_vocabulary(file));
  return make_tokenizer(std::move(source));
}

Result<std::shared_ptr<const Tokenizer>> make_tokenizer(VocabularySource source) {
  const auto maker = std::ranges::find(kMakers, source.model, &Maker::model);
  if (maker == std::end(kMakers)) {
    return Error{
        ErrorKind::model, "unsupported_tokenizer",
        "tokenizer.ggml.model is missing or names no known kind of vocabulary; gpt2, llama, t5 and gemma4 work",
        "tokenizer.ggml.model"};
  }
  return maker->make(std::move(source));
}

}  // namespace martlet
