#pragma once

#include "text/vocabulary.h"

namespace martlet {

// SentencePiece's unigram model: of all ways to write a word with pieces, the one whose scores (log-probabilities) add
// up to the most.
Result<std::shared_ptr<const Tokenizer>> make_unigram_tokenizer(VocabularySource source);

}  // namespace martlet
