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
    return std::shared_ptr<const ChatTemplate>(new ChatTemplate(std::move(program)));
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
