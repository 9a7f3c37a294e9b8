#include "server/messages.h"

#include <fmt/format.h>

#include "server/field.h"

namespace martlet::server {

namespace json = boost::json;

namespace {

struct Role {
  const char* name;
  const char* shown_as;  // what the template sees; null: not supported
};

// OpenAI's newer name for the system's part is "developer"; templates know the older one.
constexpr Role kRoles[] = {
    {"system", "system"},       {"developer", "system"}, {"user", "user"},
    {"assistant", "assistant"}, {"tool", nullptr},       {"function", nullptr},
};

Result<std::string> read_role(const json::object& message, const std::string& name) {
  const json::value* role = message.if_contains("role");
  if (role && role->is_string()) {
    for (const Role& row : kRoles) {
      if (role->get_string() != row.name) continue;
      return row.shown_as ? Result<std::string>(row.shown_as) : Result<std::string>(unsupported(name));
    }
  }
  return bad_field("invalid_value", "must be system, developer, user or assistant", name);
}

Result<std::string> read_part(const json::value& part, const std::string& name) {
  const json::object* object = part.if_object();
  const json::value* type = object ? object->if_contains("type") : nullptr;
  if (!type || !type->is_string()) return bad_field("invalid_value", "must be a text part", name);
  if (type->get_string() != "text") return unsupported(name + ".type");
  const json::value* text = object->if_contains("text");
  if (!text || !text->is_string()) return bad_field("invalid_value", "must be a string", name + ".text");
  for (const auto& member : *object) {
    if (member.key() != "type" && member.key() != "text") return unsupported(name);
  }
  return std::string(text->get_string());
}

Result<std::string> read_content(const json::value& content, const std::string& name) {
  if (content.is_string()) return std::string(content.get_string());
  if (!content.is_array()) return bad_field("invalid_value", "must be a string or an array of text parts", name);
  std::string out;
  size_t index = 0;
  for (const json::value& part : content.get_array()) {
    MARTLET_ASSIGN(const std::string text, read_part(part, fmt::format("{}[{}]", name, index)));
    if (index++ > 0) out += '\n';
    out += text;
  }
  return out;
}

Result<json::value> read_message(const json::value& value, const std::string& name) {
  const json::object message = value.is_object() ? value.get_object() : json::object();  // none: it has no role
  MARTLET_ASSIGN(const std::string role, read_role(message, name + ".role"));
  for (const auto& member : message) {
    // null is what clients send for what a message does not have.
    const bool known = member.key() == "role" || member.key() == "content";
    if (!known && !member.value().is_null()) return unsupported(name + "." + std::string(member.key()));
  }
  const json::value* content = message.if_contains("content");
  if (!content) return bad_field("invalid_value", "must be there", name + ".content");
  MARTLET_ASSIGN(const std::string text, read_content(*content, name + ".content"));
  return json::value(json::object{{"role", role}, {"content", text}});
}

}  // namespace

Result<json::array> parse_messages(json::value value, const std::string& name) {
  if (!value.is_array()) return bad_field("invalid_value", "must be an array of messages", name);
  json::array out;
  for (const json::value& message : value.get_array()) {
    MARTLET_ASSIGN(json::value read, read_message(message, fmt::format("{}[{}]", name, out.size())));
    out.push_back(std::move(read));
  }
  return out;
}

}  // namespace martlet::server
