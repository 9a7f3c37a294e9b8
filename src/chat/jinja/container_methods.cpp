// Methods of dict, list, tuple and the numbers; which names the sandbox withholds.

#include <cmath>

#include "chat/jinja/builtin.h"
#include "chat/jinja/python_string.h"

namespace martlet::jinja {
namespace {

template <class Select>
Items entries(const Call& call, Select select) {
  Items items;
  for (const auto& entry : call.self.dict()->entries()) items.push_back(select(entry));
  return items;
}

Value keys(const Call& call) {
  return make_sequence(Sequence::Kind::keys, entries(call, [](const auto& entry) { return entry.first; }));
}
Value values(const Call& call) {
  return make_sequence(Sequence::Kind::values, entries(call, [](const auto& entry) { return entry.second; }));
}
Value items(const Call& call) {
  return make_sequence(Sequence::Kind::items, entries(call, [](const auto& entry) {
                         return make_tuple({entry.first, entry.second});
                       }));
}

Value get(const Call& call) {
  const Value* found = call.self.dict()->find(*call.argument(0));
  if (found) return *found;
  return call.argument(1) ? *call.argument(1) : Value(None{});
}

Value copy(const Call& call) {
  return call.self;
}  // nothing can change it

Value from_keys(const Call& call) {
  Dict dict;
  for (const Value& key : items_of(*call.argument(0)))
    dict.set(key, call.argument(1) ? *call.argument(1) : Value(None{}));
  return make_dict(std::move(dict));
}

Value count_items(const Call& call) {
  Integer found = 0;
  for (const Value& item : call.self.sequence()->items) found += equal(item, *call.argument(0)) ? 1 : 0;
  return found;
}

Value index_of_item(const Call& call) {
  const Items& items = call.self.sequence()->items;
  const auto bound = [&](size_t i) { return call.none(i) ? std::nullopt : std::optional(call.integer(i)); };
  const SliceRange range = slice_range(items.size(), bound(1), bound(2), 1);
  for (size_t i = 0; i < range.count; ++i) {
    const size_t at = static_cast<size_t>(range.start) + i;
    if (equal(items[at], *call.argument(0))) return static_cast<Integer>(at);
  }
  fail("the value is not in the list");
}

Value bit_length(const Call& call) {
  const Integer value = *call.self.integral();
  uint64_t magnitude = value < 0 ? uint64_t{0} - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  Integer bits = 0;
  for (; magnitude > 0; magnitude >>= 1) ++bits;
  return bits;
}

Value is_integer(const Call& call) {
  const double number = *call.self.get<double>();
  return std::isfinite(number) && number == std::floor(number);
}

constexpr Builtin kDictMethods[] = {
    {"copy", {}, 0, copy},   {"fromkeys", {"/iterable", "/value"}, 1, from_keys},
    {"items", {}, 0, items}, {"get", {"/key", "/default"}, 1, get},
    {"keys", {}, 0, keys},   {"values", {}, 0, values},
};
constexpr Builtin kTupleMethods[] = {
    {"count", {"/value"}, 1, count_items},
    {"index", {"/value", "/start", "/stop"}, 1, index_of_item},
};
constexpr Builtin kListMethods[] = {
    {"copy", {}, 0, copy},
    {"count", {"/value"}, 1, count_items},
    {"index", {"/value", "/start", "/stop"}, 1, index_of_item},
};
constexpr Builtin kIntegerMethods[] = {
    {"bit_length", {}, 0, bit_length},
    {"conjugate", {}, 0, copy},
};
constexpr Builtin kNumberMethods[] = {
    {"is_integer", {}, 0, is_integer},
    {"conjugate", {}, 0, copy},
};

constexpr std::string_view kWithheldOfDict[] = {"clear", "pop", "popitem", "setdefault", "update"};
constexpr std::string_view kWithheldOfList[] = {"append", "clear",  "extend",  "insert",
                                                "pop",    "remove", "reverse", "sort"};

std::span<const Builtin> methods_of(const Value& value) {
  if (value.text()) return string_methods();
  if (value.dict()) return kDictMethods;
  if (value.integral()) return kIntegerMethods;
  if (value.get<double>()) return kNumberMethods;
  if (value.sequence(Sequence::Kind::list)) return kListMethods;
  if (value.sequence(Sequence::Kind::tuple) || value.sequence(Sequence::Kind::range)) return kTupleMethods;
  return {};
}

}  // namespace

const Builtin* find_method(const Value& value, std::string_view name) {
  for (const Builtin& method : methods_of(value)) {
    if (method.name == name) return &method;
  }
  return nullptr;
}

bool is_withheld(const Value& value, std::string_view name) {
  const auto names = value.dict()                           ? std::span<const std::string_view>(kWithheldOfDict)
                     : value.sequence(Sequence::Kind::list) ? std::span<const std::string_view>(kWithheldOfList)
                                                            : std::span<const std::string_view>();
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace martlet::jinja
