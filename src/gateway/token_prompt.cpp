#include "gateway/token_prompt.h"

#include <algorithm>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include "chat/encode_chat.h"
#include "server/error_response.h"
#include "server/json_body.h"
#include "server/messages.h"

namespace martlet::gateway {

namespace json = boost::json;

namespace {

// What a chat's request may hold and a completion's does not, or means something else by.
struct ChatOnly {
  const char* name;
  bool false_is_default;
};
constexpr ChatOnly kChatOnly[] = {
    {"tools", false},
    {"tool_choice", false},
    {"functions", false},
    {"function_call", false},
    {"parallel_tool_calls", true},
    {"response_format", false},
    {"logprobs", true},
    {"top_logprobs", false},
    {"modalities", false},
    {"audio", false},
    {"prediction", false},
    {"reasoning_effort", false},
    {"reasoning_format", false},
    {"verbosity", false},
    {"web_search_options", false},
    {"documents", false},
    {"chat_template", false},
    {"chat_template_kwargs", false},
    {"add_generation_prompt", false},
    {"continue_final_message", true},
    {"prompt", false},
    {"suffix", false},
    {"echo", true},
};

Status drop_chat_only(json::object& request) {
  for (const auto& [name, false_is_default] : kChatOnly) {
    const json::value* value = request.if_contains(name);
    if (!value) continue;
    if (!value->is_null() && !(false_is_default && value->is_bool() && !value->get_bool())) {
      return server::bad_field("unsupported_parameter", "the upstream gets token ids, which this does not go with",
                               name);
    }
    request.erase(name);
  }
  return {};
}

json::array ids_of(const std::vector<Token>& tokens) {
  return json::array(tokens.begin(), tokens.end());
}

// A user's text: nothing in it becomes a control token.
json::array text_ids(const Tokenizer& tokenizer, const json::string& text) {
  std::vector<Token> tokens;
  if (tokenizer.adds_bos() && tokenizer.bos() >= 0) tokens.push_back(tokenizer.bos());
  tokenizer.encode({text.data(), text.size()}, {}, tokens);
  return ids_of(tokens);
}

// A string, or an array of strings; token ids stay what they are, and of anything else the upstream has its own words.
void encode_prompt(const Tokenizer& tokenizer, json::object& request) {
  json::value* prompt = request.if_contains("prompt");
  if (!prompt) return;
  if (prompt->is_string()) {
    *prompt = text_ids(tokenizer, prompt->get_string());
  } else if (json::array* prompts = prompt->if_array()) {
    for (json::value& one : *prompts) {
      if (one.is_string()) one = text_ids(tokenizer, one.get_string());
    }
  }
}

// The newer name wins; a completion knows the older one only.
void set_limit(json::object& request, int64_t room) {
  json::value limit;
  for (const char* name : {"max_tokens", "max_completion_tokens"}) {
    const json::value* value = request.if_contains(name);
    if (value && !value->is_null()) limit = *value;
    request.erase(name);
  }
  if (limit.is_null()) limit = room;
  request["max_tokens"] = std::move(limit);
}

Status encode_messages(const TextModel& model, json::object& request, int64_t context) {
  if (!model.chat_template) {
    return Error{ErrorKind::request, "template_unsupported",
                 "this model has no usable chat template; /v1/completions works", "messages"};
  }
  MARTLET_TRY(drop_chat_only(request));
  json::value messages;
  if (json::value* given = request.if_contains("messages")) messages = std::move(*given);
  MARTLET_ASSIGN(json::array read, server::parse_messages(std::move(messages), "messages"));
  const json::object inputs{{"messages", std::move(read)}, {"add_generation_prompt", true}};
  MARTLET_ASSIGN(const std::vector<Token> tokens, encode_chat(*model.chat_template, *model.tokenizer, inputs));
  const int64_t room = context - static_cast<int64_t>(tokens.size());
  if (room < 1) {
    return Error{ErrorKind::request, "context_length_exceeded",
                 "the messages leave no room for an answer in the upstream's context", "messages"};
  }
  request.erase("messages");
  request["prompt"] = ids_of(tokens);
  set_limit(request, room);
  return {};
}

std::optional<json::object> read_object(std::string_view text) {
  json::error_code ec;
  json::value value = json::parse(text, ec);
  if (ec || !value.is_object()) return std::nullopt;
  return std::move(value.get_object());
}

// {"text"} becomes {`part`: {"content"}}.
bool reshape(json::value& value, const char* part, bool says_role) {
  json::object* choice = value.if_object();
  json::value* text = choice ? choice->if_contains("text") : nullptr;
  if (!text || !text->is_string()) return false;
  json::object said;
  if (says_role) said["role"] = "assistant";
  said["content"] = std::move(*text);
  choice->erase("text");
  (*choice)[part] = std::move(said);
  return true;
}

}  // namespace

Result<std::string> token_request(const TextModel& model, std::string_view body, bool chat, int64_t context) {
  MARTLET_ASSIGN(json::object request, server::parse_json_body(body));
  if (chat) {
    MARTLET_TRY(encode_messages(model, request, context));
  } else {
    encode_prompt(*model.tokenizer, request);
  }
  return json::serialize(request);
}

std::optional<std::string> ChatShape::whole(std::string_view text) {
  std::optional<json::object> answer = read_object(text);
  json::value* choices = answer ? answer->if_contains("choices") : nullptr;
  if (!choices || !choices->is_array()) return std::nullopt;
  for (json::value& choice : choices->get_array()) {
    if (!reshape(choice, "message", true)) return std::nullopt;
  }
  (*answer)["object"] = "chat.completion";
  return json::serialize(*answer);
}

std::optional<std::string> ChatShape::event(std::string_view text) {
  std::optional<json::object> answer = read_object(text);
  json::value* choices = answer ? answer->if_contains("choices") : nullptr;
  if (!choices || !choices->is_array()) return std::nullopt;
  for (json::value& choice : choices->get_array()) {
    const json::value* index = choice.is_object() ? choice.get_object().if_contains("index") : nullptr;
    const int64_t number = index && index->is_int64() ? index->get_int64() : -1;
    if (number < 0 || number >= static_cast<int64_t>(kChoices)) return std::nullopt;
    if (!reshape(choice, "delta", !begun_[number])) return std::nullopt;
    begun_.set(number);
  }
  (*answer)["object"] = "chat.completion.chunk";
  return json::serialize(*answer);
}

}  // namespace martlet::gateway
