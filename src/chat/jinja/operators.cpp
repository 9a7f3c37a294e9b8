#include "chat/jinja/operators.h"

#include <cmath>

#include "chat/jinja/format.h"
#include "chat/jinja/python_string.h"

namespace martlet::jinja {
namespace {

[[noreturn]] void unsupported(const Value& left, const Value& right) {
  if (left.undefined()) fail_undefined(*left.undefined());
  if (right.undefined()) fail_undefined(*right.undefined());
  fail("values of types '" + std::string(type_name(left)) + "' and '" + std::string(type_name(right)) +
       "' cannot be combined by this operator");
}

[[noreturn]] void overflow() {
  exceed("an integer does not fit in 64 bits");
}

// Applies one function to two integers, or another to two floats, as Python widens them.
template <class OfIntegers, class OfNumbers>
Value numeric(const Value& left, const Value& right, OfIntegers of_integers, OfNumbers of_numbers) {
  const auto a = left.integral(), b = right.integral();
  if (a && b) return of_integers(*a, *b);
  const auto x = left.number(), y = right.number();
  if (x && y) return of_numbers(*x, *y);
  unsupported(left, right);
}

Text escaped_if(const Text& text, bool markup) {
  return markup ? escape_html(text) : text;
}

Value repeat_items(const Sequence& sequence, Integer times) {
  const bool known = sequence.kind == Sequence::Kind::list || sequence.kind == Sequence::Kind::tuple;
  if (!known) fail("only strings, lists and tuples can be repeated");
  Items items;
  for (Integer i = 0; i < times; ++i) {
    if (sequence.items.empty()) break;
    items.insert(items.end(), sequence.items.begin(), sequence.items.end());
    work(items.size() / 64 + 1);
  }
  return make_sequence(sequence.kind, std::move(items));
}

void need_divisor(bool nonzero) {
  if (!nonzero) fail("division by zero");
}

Value integer_power(Integer base, Integer exponent) {
  if (exponent < 0) {
    need_divisor(base != 0);
    return std::pow(static_cast<double>(base), static_cast<double>(exponent));
  }
  Integer result = 1;
  for (; exponent > 0; exponent >>= 1) {
    if ((exponent & 1) && __builtin_mul_overflow(result, base, &result)) overflow();
    if (exponent > 1 && __builtin_mul_overflow(base, base, &base)) overflow();
  }
  return result;
}

}  // namespace

Value add(const Value& left, const Value& right) {
  if (left.text() && right.text()) {
    const bool markup = left.text()->markup() || right.text()->markup();
    return concatenate(escaped_if(*left.text(), markup), escaped_if(*right.text(), markup)).with_markup(markup);
  }
  const Sequence *a = left.sequence(), *b = right.sequence();
  if (a && b && a->kind == b->kind && (a->kind == Sequence::Kind::list || a->kind == Sequence::Kind::tuple)) {
    Items items;
    items.reserve(a->items.size() + b->items.size());
    items.insert(items.end(), a->items.begin(), a->items.end());
    items.insert(items.end(), b->items.begin(), b->items.end());
    return make_sequence(a->kind, std::move(items));
  }
  return numeric(
      left, right,
      [](Integer x, Integer y) -> Value {
        Integer sum = 0;
        if (__builtin_add_overflow(x, y, &sum)) overflow();
        return sum;
      },
      [](double x, double y) -> Value { return x + y; });
}

Value subtract(const Value& left, const Value& right) {
  return numeric(
      left, right,
      [](Integer x, Integer y) -> Value {
        Integer difference = 0;
        if (__builtin_sub_overflow(x, y, &difference)) overflow();
        return difference;
      },
      [](double x, double y) -> Value { return x - y; });
}

Value multiply(const Value& left, const Value& right) {
  if (left.text() && right.integral()) return repeat(*left.text(), *right.integral());
  if (right.text() && left.integral()) return repeat(*right.text(), *left.integral());
  if (left.sequence() && right.integral()) return repeat_items(*left.sequence(), *right.integral());
  if (right.sequence() && left.integral()) return repeat_items(*right.sequence(), *left.integral());
  return numeric(
      left, right,
      [](Integer x, Integer y) -> Value {
        Integer product = 0;
        if (__builtin_mul_overflow(x, y, &product)) overflow();
        return product;
      },
      [](double x, double y) -> Value { return x * y; });
}

Value divide(const Value& left, const Value& right) {
  const auto of_numbers = [](double x, double y) -> Value {
    need_divisor(y != 0);
    return x / y;
  };
  return numeric(
      left, right, [&](Integer x, Integer y) { return of_numbers(static_cast<double>(x), static_cast<double>(y)); },
      of_numbers);
}

Value floor_divide(const Value& left, const Value& right) {
  return numeric(
      left, right,
      [](Integer x, Integer y) -> Value {
        need_divisor(y != 0);
        if (y == -1) return negate(Value(x));
        const Integer quotient = x / y;
        return quotient - (x % y != 0 && (x < 0) != (y < 0) ? 1 : 0);
      },
      [](double x, double y) -> Value {
        need_divisor(y != 0);
        return std::floor(x / y);
      });
}

Value modulo(const Value& left, const Value& right) {
  if (const Text* format = left.text()) {
    const bool markup = format->markup();
    return printf_format(*format, right).with_markup(markup);
  }
  return numeric(
      left, right,
      [](Integer x, Integer y) -> Value {
        need_divisor(y != 0);
        if (y == -1) return Integer{0};
        const Integer rest = x % y;
        return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
      },
      [](double x, double y) -> Value {
        need_divisor(y != 0);
        const double rest = std::fmod(x, y);
        if (rest == 0) return std::copysign(0.0, y);
        return (rest < 0) != (y < 0) ? rest + y : rest;
      });
}

Value power(const Value& left, const Value& right) {
  return numeric(left, right, integer_power, [](double x, double y) -> Value {
    if (x == 0 && y < 0) need_divisor(false);
    if (x < 0 && y != std::floor(y)) fail("a power of a negative number is not real");
    const double result = std::pow(x, y);
    if (std::isinf(result) && std::isfinite(x) && std::isfinite(y)) fail("a power is too large");
    return result;
  });
}

Value negate(const Value& value) {
  if (const auto integer = value.integral()) {
    Integer result = 0;
    if (__builtin_sub_overflow(Integer{0}, *integer, &result)) overflow();
    return result;
  }
  if (const auto* number = value.get<double>()) return -*number;
  unsupported(value, 0);
}

Value plus(const Value& value) {
  if (const auto integer = value.integral()) return *integer;
  if (value.get<double>()) return value;
  unsupported(value, 0);
}

bool less(const Value& left, const Value& right) {
  return compare(left, right) == -1;
}
bool less_equal(const Value& left, const Value& right) {
  return compare(left, right) <= 0;
}
bool greater(const Value& left, const Value& right) {
  return compare(left, right) == 1;
}
bool greater_equal(const Value& left, const Value& right) {
  const int order = compare(left, right);
  return order == 0 || order == 1;
}
bool not_equal(const Value& left, const Value& right) {
  return !equal(left, right);
}
bool is_in(const Value& item, const Value& container) {
  return contains(container, item);
}
bool is_not_in(const Value& item, const Value& container) {
  return !contains(container, item);
}

}  // namespace martlet::jinja
