#include "chat/encode_chat.h"

namespace martlet {

Result<std::vector<Token>> encode_chat(const ChatTemplate& chat_template, const Tokenizer& tokenizer,
                                       const boost::json::object& inputs) {
  MARTLET_ASSIGN(const Rendered rendered,
                 render_chat(chat_template, tokenizer, inputs, std::chrono::system_clock::now()));
  std::vector<Token> tokens;
  tokenizer.encode(rendered.text, rendered.trusted, tokens);
  // Most templates write the BOS token themselves: two would be one too many.
  const bool written = !tokens.empty() && tokens.front() == tokenizer.bos();
  if (tokenizer.adds_bos() && tokenizer.bos() >= 0 && !written) tokens.insert(tokens.begin(), tokenizer.bos());
  return tokens;
}

}  // namespace martlet
