#include "cli/chat/conversation.h"

#include <boost/json.hpp>
#include <filesystem>
#include <span>

#include "base/utf8.h"
#include "cli/chat/text_file.h"
#include "hub/file.h"

namespace martlet::cli {
namespace {

namespace json = boost::json;

json::object message(std::string_view role, std::string_view content) {
  return {{"role", role}, {"content", content}};
}

Error bad(const std::string& path) {
  return {ErrorKind::io, "bad_conversation", "the file holds no conversation as /save writes it", path};
}

// All of it or nothing: a full disk must not cost the conversation that was there before.
Status replace_file(const std::filesystem::path& path, const std::string& text) {
  std::error_code error;
  if (std::filesystem::exists(path, error) && !std::filesystem::is_regular_file(path, error))
    return Error{ErrorKind::io, "not_regular_file", "this is no regular file", path.string()};
  const std::filesystem::path target = std::filesystem::weakly_canonical(std::filesystem::absolute(path, error), error),
                              fresh = target.string() + ".new";
  FileSystem& files = real_file_system();
  MARTLET_ASSIGN(const std::unique_ptr<File> file, files.open(fresh));
  const auto write = [&]() -> Status {
    MARTLET_TRY(file->resize(0));
    MARTLET_TRY(file->write(0, std::as_bytes(std::span(text))));
    MARTLET_TRY(file->sync());
    return files.rename(fresh, target);
  };
  Status status = write();
  if (!status) files.remove(fresh);
  return status;
}

bool is_text(const json::value* value) {
  return value && value->is_string() && utf8::valid(value->get_string());
}

}  // namespace

json::array Conversation::to_template() const {
  json::array out;
  if (!system.empty()) out.push_back(message("system", system));
  for (const Message& m : messages) out.push_back(message(m.role, m.content));
  return out;
}

Status Conversation::save(const std::string& path) const {
  json::array list;
  for (const Message& m : messages) list.push_back(message(m.role, m.content));
  return replace_file(path, json::serialize(json::object{{"system", system}, {"messages", std::move(list)}}) + "\n");
}

Result<Conversation> Conversation::load(const std::string& path) {
  MARTLET_ASSIGN(const std::string text, read_text_file(path));
  boost::system::error_code error;
  const json::value document = json::parse(text, error);
  if (error || !document.is_object()) return bad(path);
  const json::value* system = document.get_object().if_contains("system");
  const json::value* messages = document.get_object().if_contains("messages");
  if (!is_text(system) || !messages || !messages->is_array()) return bad(path);
  Conversation out;
  out.system = system->get_string();
  for (const json::value& value : messages->get_array()) {
    const json::object* object = value.if_object();
    if (!object || !is_text(object->if_contains("role")) || !is_text(object->if_contains("content"))) return bad(path);
    Message m{std::string(object->at("role").get_string()), std::string(object->at("content").get_string())};
    if (m.role != "user" && m.role != "assistant") return bad(path);
    out.messages.push_back(std::move(m));
  }
  return out;
}

}  // namespace martlet::cli
