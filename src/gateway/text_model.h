#pragma once

#include <memory>
#include <string>

#include "base/error.h"
#include "chat/chat_template.h"
#include "file/model_file.h"
#include "text/tokenizer.h"

namespace martlet::gateway {

// The half of a model that turns messages into token ids. Immutable, thread-safe.
struct TextModel {
  std::shared_ptr<const Tokenizer> tokenizer;
  std::shared_ptr<const ChatTemplate> chat_template;  // null when the model has none that can be used
  std::shared_ptr<const ModelFile> file;              // where they come from
};

// Of a GGUF file. Errors: those of opening it and of its tokenizer.
Result<TextModel> open_text_model(const std::string& path);

}  // namespace martlet::gateway
