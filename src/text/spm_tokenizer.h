#pragma once

#include "text/vocabulary.h"

namespace martlet {

// SentencePiece's byte-pair encoding: of all neighbours that form a piece of the vocabulary, those with the best score
// are merged first. Characters without a piece become byte tokens, or the unknown token.
Result<std::shared_ptr<const Tokenizer>> make_spm_tokenizer(VocabularySource source);

}  // namespace martlet
