// What stands behind "is".

#include "chat/jinja/ast.h"
#include "chat/jinja/operators.h"
#include "chat/jinja/python_string.h"
#include "chat/jinja/represent.h"

namespace martlet::jinja {
namespace {

template <CompareFunction function>
Value compare_test(const Call& call) {
  return function(call.self, *call.argument(0));
}

Integer remainder(const Value& value, const Value& divisor) {
  const auto rest = modulo(value, divisor);
  if (const auto* number = rest.get<double>()) return *number == 0 ? 0 : *number == 1 ? 1 : 2;
  return rest.integral().value_or(2);
}

bool is_sequence(const Value& value) {
  if (value.text() || value.dict() || value.undefined()) return true;
  const Sequence* sequence = value.sequence();
  return sequence && (sequence->kind == Sequence::Kind::list || sequence->kind == Sequence::Kind::tuple ||
                      sequence->kind == Sequence::Kind::range);
}

bool is_iterable(const Value& value) {
  return value.text() || value.dict() || value.undefined() || value.sequence();
}

constexpr Builtin kTests[] = {
    {"boolean", {}, 0, [](const Call& c) { return Value(c.self.get<bool>() != nullptr); }},
    {"callable",
     {},
     0,
     [](const Call& c) { return Value((c.self.object() && c.self.object()->callable()) || c.self.undefined()); }},
    {"defined", {}, 0, [](const Call& c) { return Value(!c.self.undefined()); }},
    {"divisibleby", {"num"}, 1, [](const Call& c) { return Value(remainder(c.self, *c.argument(0)) == 0); }},
    {"escaped", {}, 0, [](const Call& c) { return Value(c.self.text() && c.self.text()->markup()); }},
    {"even", {}, 0, [](const Call& c) { return Value(remainder(c.self, 2) == 0); }},
    {"odd", {}, 0, [](const Call& c) { return Value(remainder(c.self, 2) == 1); }},
    {"false", {}, 0, [](const Call& c) { return Value(c.self.get<bool>() && !*c.self.get<bool>()); }},
    {"true", {}, 0, [](const Call& c) { return Value(c.self.get<bool>() && *c.self.get<bool>()); }},
    {"filter", {}, 0, [](const Call& c) { return Value(find_filter(need_text(c.self).view()) != nullptr); }},
    {"test", {}, 0, [](const Call& c) { return Value(find_test(need_text(c.self).view()) != nullptr); }},
    {"float", {}, 0, [](const Call& c) { return Value(c.self.get<double>() != nullptr); }},
    {"in", {"seq"}, 1, [](const Call& c) { return Value(contains(*c.argument(0), c.self)); }},
    {"integer", {}, 0, [](const Call& c) { return Value(c.self.get<Integer>() != nullptr); }},
    {"iterable", {}, 0, [](const Call& c) { return Value(is_iterable(c.self)); }},
    {"lower", {}, 0, [](const Call& c) { return Value(is_lower(to_text(c.self))); }},
    {"upper", {}, 0, [](const Call& c) { return Value(is_upper(to_text(c.self))); }},
    {"mapping", {}, 0, [](const Call& c) { return Value(c.self.dict() != nullptr); }},
    {"none", {}, 0, [](const Call& c) { return Value(c.self.none()); }},
    {"number", {}, 0, [](const Call& c) { return Value(c.self.number().has_value()); }},
    {"sameas", {"other"}, 1, [](const Call& c) { return Value(identical(c.self, *c.argument(0))); }},
    {"sequence", {}, 0, [](const Call& c) { return Value(is_sequence(c.self)); }},
    {"string", {}, 0, [](const Call& c) { return Value(c.self.text() != nullptr); }},
    {"undefined", {}, 0, [](const Call& c) { return Value(c.self.undefined() != nullptr); }},
    {"==", {"/other"}, 1, compare_test<equal>},
    {"eq", {"/other"}, 1, compare_test<equal>},
    {"equalto", {"/other"}, 1, compare_test<equal>},
    {"!=", {"/other"}, 1, compare_test<not_equal>},
    {"ne", {"/other"}, 1, compare_test<not_equal>},
    {">", {"/other"}, 1, compare_test<greater>},
    {"gt", {"/other"}, 1, compare_test<greater>},
    {"greaterthan", {"/other"}, 1, compare_test<greater>},
    {">=", {"/other"}, 1, compare_test<greater_equal>},
    {"ge", {"/other"}, 1, compare_test<greater_equal>},
    {"<", {"/other"}, 1, compare_test<less>},
    {"lt", {"/other"}, 1, compare_test<less>},
    {"lessthan", {"/other"}, 1, compare_test<less>},
    {"<=", {"/other"}, 1, compare_test<less_equal>},
    {"le", {"/other"}, 1, compare_test<less_equal>},
};

}  // namespace

std::span<const Builtin> tests() {
  return kTests;
}

}  // namespace martlet::jinja
