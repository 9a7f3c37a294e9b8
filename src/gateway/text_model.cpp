#include "gateway/text_model.h"

#include "chat/prompt.h"

namespace martlet::gateway {

Result<TextModel> open_text_model(const std::string& path) {
  TextModel out;
  MARTLET_ASSIGN(out.file, ModelFile::open(path));
  MARTLET_ASSIGN(out.tokenizer, Tokenizer::create(*out.file));
  if (auto found = load_chat_template(*out.file)) out.chat_template = std::move(*found);
  return out;
}

}  // namespace martlet::gateway
