#include "chat/encode_chat.h"
#include "server/error_response.h"
#include "server/served_model.h"

namespace martlet::server {

Result<std::vector<Token>> chat_prompt(const ServedModel& model, const ApiRequest& request) {
  if (!model.chat_template) {
    return Error{ErrorKind::request, "template_unsupported",
                 "this model has no usable chat template; /v1/completions works", "messages"};
  }
  boost::json::object inputs = request.template_kwargs;
  inputs["messages"] = request.messages;
  inputs["add_generation_prompt"] = true;
  return encode_chat(**model.chat_template, *model.tokenizer, inputs);
}

}  // namespace martlet::server
