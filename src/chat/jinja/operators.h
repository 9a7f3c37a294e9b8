#pragma once

// Python's operators.

#include "chat/jinja/value.h"

namespace martlet::jinja {

Value add(const Value& left, const Value& right);
Value subtract(const Value& left, const Value& right);
Value multiply(const Value& left, const Value& right);
Value divide(const Value& left, const Value& right);
Value floor_divide(const Value& left, const Value& right);
Value modulo(const Value& left, const Value& right);  // of a string on the left: printf formatting
Value power(const Value& left, const Value& right);
Value negate(const Value& value);
Value plus(const Value& value);

bool less(const Value& left, const Value& right);
bool less_equal(const Value& left, const Value& right);
bool greater(const Value& left, const Value& right);
bool greater_equal(const Value& left, const Value& right);
bool not_equal(const Value& left, const Value& right);
bool is_in(const Value& item, const Value& container);
bool is_not_in(const Value& item, const Value& container);

}  // namespace martlet::jinja
