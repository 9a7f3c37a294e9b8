#pragma once

// What a folder of a model in Hugging Face's layout (MLX keeps it) says of its tokenizer and template: enough to
// compare it with another file of the same model, not to tokenize.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "chat/chat_template.h"

namespace martlet {

// tokenizer.json
struct FolderVocabulary {
  std::vector<std::string> pieces;  // by token id, added tokens among them; empty where no token has the id
  std::vector<std::string> merges;  // "left right", best first; none where the kind of tokenizer has none
  std::string first;                // the token that its post-processor puts in front of a text; empty: none
};
// At most 2^21 ids, and no more than `text` has bytes; at most 2^23 values in all. Errors: ErrorKind::model,
// "bad_vocab".
Result<FolderVocabulary> parse_tokenizer_json(std::string_view text);

struct ModelFolder {
  FolderVocabulary vocabulary;
  Token bos = -1, eos = -1;                           // -1: the folder names none that its vocabulary has
  bool adds_bos = false;                              // in front of a text
  std::string bos_name, eos_name;                     // as a template reads them
  std::vector<Token> stop_tokens;                     // that end an answer; sorted
  std::shared_ptr<const ChatTemplate> chat_template;  // null when there is none that can be used
};
// Reads tokenizer.json, which must be there, and where they are tokenizer_config.json, config.json,
// generation_config.json, chat_template.jinja and chat_template.json. Errors: "bad_vocab"; ErrorKind::model
// "bad_model_folder" for a file that is too large, has more than 2^18 values, or is no JSON; those of MappedFile::open.
Result<ModelFolder> read_model_folder(const std::string& folder);
// It is a folder with a tokenizer.json.
bool is_model_folder(const std::string& path);

}  // namespace martlet
