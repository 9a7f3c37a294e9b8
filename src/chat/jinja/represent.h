#pragma once

// Values as Python prints them.

#include "chat/jinja/value.h"

namespace martlet::jinja {

Text to_text(const Value& value);                      // str()
void represent(const Value& value, TextBuilder& out);  // repr(), untrusted
std::string represent_number(double number);           // repr() of a float: shortest digits that read back the same

struct JsonOptions {
  bool ensure_ascii = false;
  bool sort_keys = false;
  std::optional<Text> indent;  // of one level; none: a single line
  Text item_separator, key_separator;
};
// json.dumps; fails for values that JSON does not have. The result is untrusted.
Text to_json(const Value& value, const JsonOptions& options);

}  // namespace martlet::jinja
