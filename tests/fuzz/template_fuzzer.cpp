// Input: a template, then a NUL byte and the JSON of its inputs (without one: a small conversation).

#include <boost/json/parse.hpp>

#include "chat/chat_template.h"

namespace {

const char* const kConversation = R"({"messages": [{"role": "system", "content": "  Be kind. "},
  {"role": "user", "content": [{"type": "text", "text": "h\u00e9"}]}, {"role": "assistant", "content": "a<b>\n", "n": 1.5}],
  "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}], "n": 3, "bos_token": "<s>"})";

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t end = std::min(input.find('\0'), input.size());
  const auto parsed = martlet::ChatTemplate::parse(input.substr(0, end));
  if (!parsed) return 0;
  boost::json::error_code code;
  const std::string_view json = end < size ? input.substr(end + 1) : std::string_view(kConversation);
  const boost::json::value inputs = boost::json::parse(boost::json::string_view(json.data(), json.size()), code);
  if (code || !inputs.is_object()) return 0;
  const auto rendered = (*parsed)->render(inputs.get_object(), std::chrono::system_clock::time_point(),
                                          {.time = std::chrono::milliseconds(50)});
  if (!rendered) return 0;
  size_t at = 0;
  for (const martlet::Span& span : rendered->trusted) {
    if (span.begin < at || span.end <= span.begin || span.end > rendered->text.size()) __builtin_trap();
    at = span.end;
  }
  return 0;
}
