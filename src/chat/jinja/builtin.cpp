#include "chat/jinja/builtin.h"

#include "chat/jinja/python_string.h"
#include "chat/jinja/represent.h"

namespace martlet::jinja {
namespace {

const Builtin* find_in(std::span<const Builtin> table, std::string_view name) {
  for (const Builtin& row : table) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

// "/name": by position only.
bool takes_name(const char* parameter, std::string_view name) {
  return parameter[0] != '/' && parameter == name;
}

void bind(const Builtin& builtin, const Arguments& arguments, Call& call) {
  size_t count = 0;
  while (count < kMaxParameters && builtin.parameters[count]) ++count;
  if (arguments.positional.size() > count) fail("too many arguments for '" + std::string(builtin.name) + "'");
  for (size_t i = 0; i < arguments.positional.size(); ++i) call.given[i] = &arguments.positional[i];
  for (const auto& [name, value] : arguments.named) {
    size_t i = 0;
    while (i < count && !takes_name(builtin.parameters[i], name.view())) ++i;
    if (i == count || call.given[i])
      fail("an argument of '" + std::string(builtin.name) + "' is unknown or given twice");
    call.given[i] = &value;
  }
  for (size_t i = 0; i < builtin.required; ++i) {
    if (!call.given[i]) fail("an argument of '" + std::string(builtin.name) + "' is missing");
  }
}

}  // namespace

Value run_builtin(const Builtin& builtin, Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  work();
  Call call{interpreter, self, arguments, {}};
  const char* first = builtin.parameters[0];
  if (!first || std::string_view(first) != "*") bind(builtin, arguments, call);
  return builtin.run(call);
}

Integer Call::integer(size_t index, Integer fallback) const {
  if (!given[index]) return fallback;
  if (given[index]->undefined()) fail_undefined(*given[index]->undefined());
  const auto integer = given[index]->integral();
  if (!integer) fail("an argument must be an integer");
  return *integer;
}

bool Call::boolean(size_t index, bool fallback) const {
  return given[index] ? truth(*given[index]) : fallback;
}

Text Call::text(size_t index, const Text& fallback) const {
  return given[index] ? need_text(*given[index]) : fallback;
}

const Text& need_text(const Value& value) {
  if (value.undefined()) fail_undefined(*value.undefined());
  if (!value.text()) fail("a string is wanted, not a value of type '" + std::string(type_name(value)) + "'");
  return *value.text();
}

const Dict& need_dict(const Value& value) {
  if (value.undefined()) fail_undefined(*value.undefined());
  if (!value.dict()) fail("a mapping is wanted, not a value of type '" + std::string(type_name(value)) + "'");
  return *value.dict();
}

const Builtin* find_filter(std::string_view name) {
  for (const auto table : {text_filters(), sequence_filters(), number_filters()}) {
    if (const Builtin* row = find_in(table, name)) return row;
  }
  return nullptr;
}

const Builtin* find_test(std::string_view name) {
  return find_in(tests(), name);
}
const Builtin* find_global(std::string_view name) {
  return find_in(globals(), name);
}

}  // namespace martlet::jinja
