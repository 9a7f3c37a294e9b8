#pragma once

// From an API's messages to a prompt: finds a model's template and gives it what it expects.

#include <chrono>
#include <memory>

#include <boost/json/object.hpp>

#include "chat/chat_template.h"
#include "file/model_file.h"
#include "text/tokenizer.h"

namespace martlet {

// The model's chat template; with tools, its variant "tool_use" when it has one. Errors (ErrorKind::request):
// "no_chat_template" when the model has none, "template_unsupported" when it cannot be parsed.
Result<std::shared_ptr<const ChatTemplate>> load_chat_template(const ModelFile& file, bool with_tools = false);

// What a template reads of its tokenizer; empty where there is no such token.
struct TokenNames {
  std::string_view bos, eos;
};

// Renders `inputs`: messages, and what else the template shall read (tools, add_generation_prompt, enable_thinking
// ...). bos_token and eos_token are those of `names`; `tools` and `documents` that are not given are null, as
// Hugging Face's apply_chat_template passes them. Content that is a list of text parts reaches a template that does not
// take lists as one string, its parts joined by line ends, and the other way round. Errors (ErrorKind::request):
// "invalid_messages" (messages[i].role, messages[i].content), "unsupported_parameter" for an input that would hide a
// name of the template language, and those of ChatTemplate::render.
Result<Rendered> render_chat(const ChatTemplate& chat_template, const TokenNames& names,
                             const boost::json::object& inputs, std::chrono::system_clock::time_point now);
Result<Rendered> render_chat(const ChatTemplate& chat_template, const Tokenizer& tokenizer,
                             const boost::json::object& inputs, std::chrono::system_clock::time_point now);

}  // namespace martlet
