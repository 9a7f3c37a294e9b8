#include "chat/prompt.h"

#include <algorithm>

namespace martlet {
namespace {

namespace json = boost::json;

// Names that a template may rely on being the language's own, or the tokenizer's.
constexpr std::string_view kReserved[] = {"bos_token",       "eos_token",    "range",  "dict",   "namespace", "cycler",
                                          "raise_exception", "strftime_now", "joiner", "lipsum", "loop",      "self"};

Error bad_message(size_t index, const char* field, const char* text) {
  return {ErrorKind::request, "invalid_messages", text, "messages[" + std::to_string(index) + "]." + field};
}

const json::string* text_of(const json::value& part) {
  const json::object* object = part.if_object();
  const json::value* type = object ? object->if_contains("type") : nullptr;
  const json::value* text = object ? object->if_contains("text") : nullptr;
  const bool is_text = type && type->is_string() && type->get_string() == "text" && text && text->is_string();
  return is_text ? &text->get_string() : nullptr;
}

// The content in the shape that the template takes.
Status adapt_content(json::value& content, ChatTemplate::Content takes, size_t index) {
  if (content.is_string()) {
    if (takes == ChatTemplate::Content::parts) content = json::array{{{"type", "text"}, {"text", content}}};
    return {};
  }
  if (content.is_null()) return {};
  const json::array* parts = content.if_array();
  if (!parts) return bad_message(index, "content", "content must be a string, a list of text parts, or null");
  std::string joined;
  for (const json::value& part : *parts) {
    const json::string* text = text_of(part);
    if (!text) return bad_message(index, "content", "only parts of type \"text\" are supported");
    if (!joined.empty()) joined += '\n';
    joined.append(text->data(), text->size());
  }
  if (takes == ChatTemplate::Content::strings) content = joined;
  return {};
}

Status adapt_messages(json::object& inputs, ChatTemplate::Content takes) {
  json::value* messages = inputs.if_contains("messages");
  if (!messages || !messages->is_array() || messages->get_array().empty()) {
    return Error{ErrorKind::request, "invalid_messages", "messages must be a list of at least one message", "messages"};
  }
  size_t index = 0;
  for (json::value& message : messages->get_array()) {
    json::object* object = message.if_object();
    const json::value* role = object ? object->if_contains("role") : nullptr;
    if (!role || !role->is_string()) return bad_message(index, "role", "every message needs a role, a string");
    if (json::value* content = object->if_contains("content")) MARTLET_TRY(adapt_content(*content, takes, index));
    ++index;
  }
  return {};
}

std::string_view piece(const Tokenizer& tokenizer, Token token) {
  return token >= 0 ? tokenizer.piece(token) : std::string_view();
}

}  // namespace

Result<std::shared_ptr<const ChatTemplate>> load_chat_template(const ModelFile& file, bool with_tools) {
  auto source = with_tools ? file.string("tokenizer.chat_template.tool_use") : std::nullopt;
  for (const char* key : {"tokenizer.chat_template", "tokenizer.chat_template.default"}) {
    if (!source) source = file.string(key);
  }
  if (!source) {
    return Error{ErrorKind::request, "no_chat_template",
                 "the model has no chat template: use text completions, or a model that is made for chat", ""};
  }
  return ChatTemplate::parse(*source);
}

Result<Rendered> render_chat(const ChatTemplate& chat_template, const Tokenizer& tokenizer,
                             const boost::json::object& inputs, std::chrono::system_clock::time_point now) {
  return render_chat(chat_template, {piece(tokenizer, tokenizer.bos()), piece(tokenizer, tokenizer.eos())}, inputs,
                     now);
}

Result<Rendered> render_chat(const ChatTemplate& chat_template, const TokenNames& names,
                             const boost::json::object& inputs, std::chrono::system_clock::time_point now) {
  for (const std::string_view name : kReserved) {
    if (!inputs.contains(json::string_view(name.data(), name.size()))) continue;
    return Error{ErrorKind::request, "unsupported_parameter", "this name is the template language's own",
                 std::string(name)};
  }
  json::object complete = inputs;
  MARTLET_TRY(adapt_messages(complete, chat_template.content()));
  complete["bos_token"] = json::string_view(names.bos.data(), names.bos.size());
  complete["eos_token"] = json::string_view(names.eos.data(), names.eos.size());
  for (const char* name : {"tools", "documents"}) complete.emplace(name, nullptr);
  return chat_template.render(complete, now);
}

}  // namespace martlet
