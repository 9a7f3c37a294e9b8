#pragma once

// Functions that the language provides: filters, tests, methods of values and global functions, one table each.

#include <array>
#include <span>

#include "chat/jinja/value.h"

namespace martlet::jinja {

struct Arguments {
  Items positional;
  Vector<std::pair<Text, Value>> named;
};

constexpr size_t kMaxParameters = 6;

struct Call;
struct Builtin {
  std::string_view name;
  // Names of the parameters, then nullptr; "/x" can be given by position only. The first `required` must be given.
  // A first name of "*" takes whatever is written (Call::all).
  std::array<const char*, kMaxParameters> parameters;
  size_t required;
  Value (*run)(const Call& call);
};

// One call of a builtin.
struct Call {
  Interpreter& interpreter;
  const Value& self;  // the value that is filtered or tested, or whose method is called
  const Arguments& all;
  std::array<const Value*, kMaxParameters> given{};  // by parameter; null: not given

  const Value* argument(size_t index) const { return given[index]; }
  // The argument as a C++ value, or the fallback when it is not given. Fail when its type does not fit.
  Integer integer(size_t index, Integer fallback = 0) const;
  bool boolean(size_t index, bool fallback) const;  // by truth
  Text text(size_t index, const Text& fallback = {}) const;
  bool none(size_t index) const { return !given[index] || given[index]->none(); }  // None, or not given
};

Value run_builtin(const Builtin& builtin, Interpreter& interpreter, const Value& self, const Arguments& arguments);

const Builtin* find_filter(std::string_view name);  // null when there is none
const Builtin* find_test(std::string_view name);
const Builtin* find_global(std::string_view name);
// Methods that Python's type of `value` has. Null when there is none.
const Builtin* find_method(const Value& value, std::string_view name);
// True for names that Python's type has and the sandbox withholds, because they change the value.
bool is_withheld(const Value& value, std::string_view name);

// The tables, each defined in its own file.
std::span<const Builtin> string_methods();
std::span<const Builtin> text_filters();
std::span<const Builtin> sequence_filters();
std::span<const Builtin> number_filters();
std::span<const Builtin> tests();
std::span<const Builtin> globals();

// Of strings in messages: fails unless `value` is a string.
const Text& need_text(const Value& value);
const Dict& need_dict(const Value& value);

}  // namespace martlet::jinja
