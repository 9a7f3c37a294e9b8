#pragma once

#include "text/vocabulary.h"

namespace martlet {

// Byte-pair encoding by ranked merges, on bytes (GPT-2 and most since) or on characters (Gemma 4).
Result<std::shared_ptr<const Tokenizer>> make_bpe_tokenizer(VocabularySource source);

}  // namespace martlet
