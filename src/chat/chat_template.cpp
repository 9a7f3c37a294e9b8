#include "chat/chat_template.h"

#include <new>

#include "chat/jinja/ast.h"
#include "chat/jinja/interpreter.h"
#include "chat/jinja/lexer.h"

namespace martlet {
namespace {

constexpr size_t kMaxSource = 1 << 20;

Error error_of(const char* code, const jinja::Failure& failure, std::string_view source, size_t offset) {
  const size_t at = failure.offset >= 0 ? static_cast<size_t>(failure.offset) : offset;
  return {ErrorKind::request, code, failure.text, "template:" + jinja::position(source, at)};
}

// A conversation whose content is `content`, with what templates commonly read beside it.
boost::json::object probe(boost::json::value content) {
  return {{"messages", {{{"role", "user"}, {"content", std::move(content)}}}},
          {"add_generation_prompt", true},
          {"bos_token", ""},
          {"eos_token", ""}};
}

// What the template makes of a small conversation; empty when it refuses or does not show its content.
std::string render_probe(const ChatTemplate& chat_template, boost::json::value content) {
  const TemplateLimits limits{.time = std::chrono::milliseconds(50), .output_bytes = 1 << 20, .memory_bytes = 4 << 20};
  const auto rendered =
      chat_template.render(probe(std::move(content)), std::chrono::system_clock::time_point(), limits);
  return rendered && rendered->text.find("martlet-probe") != std::string::npos ? rendered->text : "";
}

// A template takes parts when it makes the same of them as of their text: others print the list itself, or refuse.
ChatTemplate::Content find_content(const ChatTemplate& chat_template) {
  const std::string of_text = render_probe(chat_template, "martlet-probe");
  const std::string of_parts =
      render_probe(chat_template, boost::json::array{{{"type", "text"}, {"text", "martlet-probe"}}});
  if (of_text.empty() && !of_parts.empty()) return ChatTemplate::Content::parts;
  const bool same = !of_text.empty() && of_text == of_parts;
  return same ? ChatTemplate::Content::either : ChatTemplate::Content::strings;
}

}  // namespace

struct ChatTemplate::Program {
  std::unique_ptr<const jinja::Program> parsed;
};

ChatTemplate::ChatTemplate(std::unique_ptr<const Program> program) : program_(std::move(program)) {}
ChatTemplate::~ChatTemplate() = default;

Result<std::shared_ptr<const ChatTemplate>> ChatTemplate::parse(std::string_view source) {
  if (source.size() > kMaxSource) {
    return Error{ErrorKind::request, "template_unsupported", "the template is larger than 1 MiB", "template"};
  }
  try {
    auto program = std::make_unique<Program>();
    program->parsed = jinja::parse(source);
    std::shared_ptr<ChatTemplate> chat_template(new ChatTemplate(std::move(program)));
    chat_template->content_ = find_content(*chat_template);
    return std::shared_ptr<const ChatTemplate>(std::move(chat_template));
  } catch (const jinja::Failure& failure) {
    return error_of("template_unsupported", failure, jinja::normalize_newlines(source), 0);
  } catch (const std::bad_alloc&) {
    return Error{ErrorKind::unavailable, "out_of_memory", "not enough memory to read the template", "template"};
  }
}

Result<Rendered> ChatTemplate::render(const boost::json::object& inputs, std::chrono::system_clock::time_point now,
                                      const TemplateLimits& limits) const {
  const jinja::Program& program = *program_->parsed;
  jinja::Budget budget(limits);
  const jinja::Budget::Use use(budget);
  size_t at = 0;
  try {
    jinja::Interpreter interpreter(program, inputs, now, budget);
    try {
      return interpreter.run();
    } catch (...) {
      at = interpreter.at();
      throw;
    }
  } catch (const jinja::Failure& failure) {
    const bool limit = failure.kind == jinja::Failure::Kind::limit;
    return error_of(limit ? "template_limit" : "template_error", failure, program.source, at);
  } catch (const std::bad_alloc&) {
    return Error{ErrorKind::unavailable, "out_of_memory", "not enough memory to render the template", ""};
  }
}

}  // namespace martlet
