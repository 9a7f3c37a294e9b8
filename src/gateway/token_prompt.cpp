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

// What a chat's request may hold and a completion's does not, or means something else by; and the value, as JSON, by
// which it asks for nothing, as null always does. The same values are harmless to the server (server/api_request.cpp).
struct ChatOnly {
  const char* name;
  const char* nothing;
};
constexpr ChatOnly kChatOnly[] = {
    {"tools", "[]"},
    {"tool_choice", R"("none")"},
    {"functions", "[]"},
    {"function_call", R"("none")"},
    {"parallel_tool_calls", "false"},
    {"response_format", R"({"type":"text"})"},
    {"logprobs", "false"},
    {"top_logprobs", "null"},
    {"modalities", R"(["text"])"},
    {"store", "false"},
    {"metadata", "null"},
    {"service_tier", "null"},
    {"audio", "null"},
    {"prediction", "null"},
    {"reasoning_effort", "null"},
    {"reasoning_format", "null"},
    {"verbosity", "null"},
    {"web_search_options", "null"},
    {"documents", "null"},
    {"chat_template", "null"},
    {"chat_template_kwargs", "null"},
    {"add_generation_prompt", "null"},
    {"continue_final_message", "false"},
    {"prompt", "null"},
    {"suffix", "null"},
    {"echo", "false"},
};

Status drop_chat_only(json::object& request) {
  for (const auto& [name, nothing] : kChatOnly) {
    const json::value* value = request.if_contains(name);
    if (!value) continue;
    if (!value->is_null() && *value != json::parse(nothing)) {
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

// A prompt's texts as ids, in which nothing that a user wrote becomes a control token. Every id takes 24 bytes here,
// more than the text that it stands for: what no upstream could take is refused before they are written down.
class PromptTexts {
 public:
  PromptTexts(const Tokenizer& tokenizer, int64_t context) : tokenizer_(tokenizer), context_(context) {}
  Status encode(json::value& text) {
    std::vector<Token> tokens;
    if (tokenizer_.adds_bos() && tokenizer_.bos() >= 0) tokens.push_back(tokenizer_.bos());
    tokenizer_.encode({text.get_string().data(), text.get_string().size()}, {}, tokens);
    total_ += tokens.size();
    if (static_cast<int64_t>(tokens.size()) > context_) {
      return Error{ErrorKind::request, "context_length_exceeded", "the prompt does not fit the upstream's context",
                   "prompt"};
    }
    if (total_ > kMostIds) {
      return server::bad_field("invalid_value", "its texts are more than 1048576 tokens in all", "prompt");
    }
    text = ids_of(tokens);
    return {};
  }

 private:
  static constexpr size_t kMostIds = 1 << 20;  // as many values as a body may hold (server/json_body.h)
  const Tokenizer& tokenizer_;
  const int64_t context_;
  size_t total_ = 0;
};

bool is_text(const json::value& value) {
  return value.is_string();
}
bool is_id(const json::value& value) {
  return value.is_int64() || value.is_uint64();
}
bool are_ids(const json::value& value) {
  const json::array* ids = value.if_array();
  return ids && std::all_of(ids->begin(), ids->end(), is_id);
}

// Texts become ids, ids stay what they are. Nothing else passes: servers take texts in other shapes too, and read
// control tokens in them.
Status encode_prompt(const Tokenizer& tokenizer, json::object& request, int64_t context) {
  json::value* prompt = request.if_contains("prompt");
  if (!prompt || are_ids(*prompt)) return {};
  PromptTexts texts(tokenizer, context);
  if (prompt->is_string()) return texts.encode(*prompt);
  json::array* prompts = prompt->if_array();
  if (prompts && std::all_of(prompts->begin(), prompts->end(), is_text)) {
    for (json::value& one : *prompts) MARTLET_TRY(texts.encode(one));
    return {};
  }
  if (prompts && std::all_of(prompts->begin(), prompts->end(), are_ids)) return {};
  return server::bad_field("invalid_value", "must be a text, token ids, or an array of either", "prompt");
}

// An answer of more choices than ChatShape keeps apart would be cut.
Status check_choices(const json::object& request) {
  const json::value* n = request.if_contains("n");
  if (!n || !n->is_number() || n->to_number<double>() <= ChatShape::kChoices) return {};
  return server::bad_field("invalid_value", "must be at most 128: the upstream gets token ids", "n");
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
  MARTLET_TRY(check_choices(request));
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
    MARTLET_TRY(encode_prompt(*model.tokenizer, request, context));
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
