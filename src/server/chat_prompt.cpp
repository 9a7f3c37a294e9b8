#include "server/error_response.h"
#include "server/served_model.h"

namespace martlet::server {

namespace json = boost::json;

namespace {

std::string_view piece(const Tokenizer& tokenizer, Token token) {
  return token >= 0 ? tokenizer.piece(token) : std::string_view();
}

}  // namespace

Result<std::vector<Token>> chat_prompt(const ServedModel& model, const ApiRequest& request) {
  if (!model.chat_template) {
    return Error{ErrorKind::request, "template_unsupported",
                 "this model has no usable chat template; /v1/completions works", "messages"};
  }
  const Tokenizer& tokenizer = *model.tokenizer;
  json::object inputs = request.template_kwargs;
  inputs["messages"] = request.messages;
  inputs["add_generation_prompt"] = true;
  inputs["bos_token"] = piece(tokenizer, tokenizer.bos());
  inputs["eos_token"] = piece(tokenizer, tokenizer.eos());
  MARTLET_ASSIGN(const Rendered rendered, (*model.chat_template)->render(inputs, std::chrono::system_clock::now()));
  std::vector<Token> tokens;
  tokenizer.encode(rendered.text, rendered.trusted, tokens);
  // Most templates write the BOS token themselves: two would be one too many.
  const bool written = !tokens.empty() && tokens.front() == tokenizer.bos();
  if (tokenizer.adds_bos() && tokenizer.bos() >= 0 && !written) tokens.insert(tokens.begin(), tokenizer.bos());
  return tokens;
}

}  // namespace martlet::server
