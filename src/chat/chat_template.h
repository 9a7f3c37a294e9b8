#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <boost/json/value.hpp>

#include "base/error.h"
#include "text/tokenizer.h"

namespace martlet {

// A rendered chat: the text, and the spans that the template itself wrote. Only inside those may control tokens be
// recognised, so no user text ever becomes one.
struct Rendered {
  std::string text;
  std::vector<Span> trusted;  // sorted, disjoint, adjacent spans merged
};

// Limits on one render: hostile templates end with `template_limit`, never with a hang.
struct TemplateLimits {
  std::chrono::milliseconds time{200};
  size_t output_bytes = 8u << 20;
  size_t memory_bytes = 16u << 20;
  int depth = 128;
};

// A parsed chat template (the Jinja dialect that Hugging Face's `apply_chat_template` uses: trim_blocks, lstrip_blocks,
// loop controls, `raise_exception`, `strftime_now`, `tojson`, generation blocks). Immutable, thread-safe.
class ChatTemplate {
 public:
  // Errors: ErrorKind::request, "template_unsupported", with line:column.
  static Result<std::shared_ptr<const ChatTemplate>> parse(std::string_view source);
  ~ChatTemplate();

  // `inputs`: an object with messages, tools, add_generation_prompt, bos_token, eos_token and whatever else the
  // template reads. Values in `trusted_keys` (bos_token, eos_token) count as the template's own text. `now`: what
  // strftime_now formats (local time fields are taken from it as UTC). Errors: "template_error" (a raise_exception's
  // own text included), "template_limit".
  Result<Rendered> render(const boost::json::object& inputs, std::chrono::system_clock::time_point now,
                          const TemplateLimits& limits = {}) const;

  // What a message's `content` may be, found by rendering small conversations when the template is parsed.
  enum class Content { strings, parts, either };  // parts: a list of {"type": "text", "text": ...}
  Content content() const { return content_; }

 private:
  struct Program;
  explicit ChatTemplate(std::unique_ptr<const Program> program);
  std::unique_ptr<const Program> program_;
  Content content_ = Content::strings;
};

}  // namespace martlet
