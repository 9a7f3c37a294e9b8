#pragma once

// Parity through files: what a model's own file says where an upstream cannot be asked.

#include <string>

#include "base/error.h"
#include "chat/chat_template.h"
#include "gateway/parity.h"
#include "text/tokenizer.h"

namespace martlet::gateway {

// Answers to the questions of questions.h as a server should give them that runs this model, and facts that no server
// tells: all of the vocabulary, its special tokens. `chat_template` may be null.
Fingerprint facts_of(const Tokenizer& tokenizer, const ChatTemplate* chat_template);
// Of a GGUF file. Errors: those of opening it and of its tokenizer.
Result<Fingerprint> facts_of_file(const std::string& path);

}  // namespace martlet::gateway
