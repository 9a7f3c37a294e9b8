#pragma once

// Parity through files: what a model's own file, or folder, says where an upstream cannot be asked.

#include <string>

#include "base/error.h"
#include "chat/model_folder.h"
#include "gateway/parity.h"
#include "gateway/text_model.h"

namespace martlet::gateway {

// Answers to the questions of questions.h as a server should give them that runs this model, and facts that no server
// tells: all of the vocabulary, its merges, its special tokens.
Fingerprint facts_of(const TextModel& model);
// What a folder says of the same. It is not tokenized with: what texts become is left open.
Fingerprint facts_of(const ModelFolder& folder);

}  // namespace martlet::gateway
