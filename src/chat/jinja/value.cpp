#include "chat/jinja/value.h"

#include <cmath>

#include "base/utf8.h"
#include "chat/jinja/python_string.h"

namespace martlet::jinja {
namespace {

constexpr int kMaxNesting = 100;
constexpr size_t kIndexFrom = 8;  // entries from which a dict is searched by hash

int depth_of(const Value& value) {
  if (const auto* sequence = value.sequence()) return sequence->depth;
  if (const auto* dict = value.dict()) return dict->depth();
  if (const Object* object = value.object()) return object->depth();
  return 0;
}

int sign(auto difference) {
  return difference < 0 ? -1 : difference > 0 ? 1 : 0;
}

// Exact: an integer of 64 bits may not be representable as a double.
int compare_numbers(Integer left, double right) {
  if (std::isnan(right)) return 1;
  if (right >= 9223372036854775808.0) return -1;
  if (right < -9223372036854775808.0) return 1;
  const double whole = std::trunc(right);
  const Integer rounded = static_cast<Integer>(whole);
  if (left != rounded) return left < rounded ? -1 : 1;
  return sign(whole - right);
}

struct Number {
  bool floating;
  Integer integer;
  double number;
};

std::optional<Number> numeric(const Value& value) {
  if (const auto integer = value.integral()) return Number{false, *integer, 0};
  if (const auto* number = value.get<double>()) return Number{true, 0, *number};
  return std::nullopt;
}

int compare_numbers(const Number& left, const Number& right) {
  if (!left.floating && !right.floating) return left.integer < right.integer ? -1 : left.integer > right.integer;
  if (left.floating && right.floating) return sign(left.number - right.number);
  return left.floating ? -compare_numbers(right.integer, left.number) : compare_numbers(left.integer, right.number);
}

bool equal_numbers(const Number& left, const Number& right) {
  if (std::isnan(left.number) || std::isnan(right.number)) return false;
  if (left.floating && right.floating) return left.number == right.number;
  return compare_numbers(left, right) == 0;
}

bool is_unordered_nan(const Number& left, const Number& right) {
  return (left.floating && std::isnan(left.number)) || (right.floating && std::isnan(right.number));
}

bool equal_items(const Items& left, const Items& right) {
  if (left.size() != right.size()) return false;
  for (size_t i = 0; i < left.size(); ++i) {
    if (!equal(left[i], right[i])) return false;
  }
  return true;
}

bool equal_dicts(const Dict& left, const Dict& right) {
  if (left.size() != right.size()) return false;
  for (const auto& [key, value] : left.entries()) {
    const Value* other = right.find(key);
    if (!other || !equal(value, *other)) return false;
  }
  return true;
}

bool comparable_kind(const Sequence& left, const Sequence& right) {
  return left.kind == right.kind && left.kind != Sequence::Kind::iterator;
}

}  // namespace

std::optional<Value> Object::attribute(std::string_view) {
  return std::nullopt;
}
Value Object::call(Interpreter&, Arguments&) {
  fail("an object of type '" + std::string(type_name()) + "' is not callable");
}
void Object::represent(TextBuilder& out) {
  out.append("<", false);
  out.append(type_name(), false);
  out.append(">", false);
}

int deeper(int depth, const Value& child) {
  const int below = 1 + depth_of(child);
  if (below > kMaxNesting) exceed("values are nested too deeply");
  return std::max(depth, below);
}

const Sequence* Value::sequence() const {
  const auto* pointer = get<std::shared_ptr<const Sequence>>();
  return pointer ? pointer->get() : nullptr;
}

const Sequence* Value::sequence(Sequence::Kind kind) const {
  const Sequence* any = sequence();
  return any && any->kind == kind ? any : nullptr;
}

const Dict* Value::dict() const {
  const auto* pointer = get<std::shared_ptr<const Dict>>();
  return pointer ? pointer->get() : nullptr;
}

Object* Value::object() const {
  const auto* pointer = get<std::shared_ptr<Object>>();
  return pointer ? pointer->get() : nullptr;
}

std::optional<Integer> Value::integral() const {
  if (const auto* integer = get<Integer>()) return *integer;
  if (const auto* boolean = get<bool>()) return *boolean ? 1 : 0;
  return std::nullopt;
}

std::optional<double> Value::number() const {
  if (const auto* number = get<double>()) return *number;
  if (const auto integer = integral()) return static_cast<double>(*integer);
  return std::nullopt;
}

template <class Matches>
const uint32_t* Dict::slot(size_t hash, Matches matches) const {
  const size_t mask = index_.size() - 1;
  for (size_t at = hash & mask;; at = (at + 1) & mask) {
    work();
    if (index_[at] == 0 || matches(entries_[index_[at] - 1].first)) return &index_[at];
  }
}

void Dict::index(uint32_t entry) {
  const Value& key = entries_[entry].first;
  const uint32_t* free = slot(hash(key), [](const Value&) { return false; });
  index_[static_cast<size_t>(free - index_.data())] = entry + 1;
}

void Dict::set(const Value& key, const Value& value) {
  depth_ = deeper(deeper(depth_, key), value);
  if (const Value* old = find(key)) {
    *const_cast<Value*>(old) = value;  // entries_ is ours, and this method is not const
    return;
  }
  entries_.emplace_back(key, value);
  if (entries_.size() <= kIndexFrom) return;
  if (index_.size() < 2 * entries_.size()) {
    size_t size = 4 * kIndexFrom;
    while (size < 4 * entries_.size()) size *= 2;
    index_.assign(size, 0);
    for (uint32_t i = 0; i < entries_.size(); ++i) index(i);
  } else {
    index(static_cast<uint32_t>(entries_.size() - 1));
  }
}

const Value* Dict::find(const Value& key) const {
  const size_t hashed = hash(key);
  if (index_.empty()) {
    for (const auto& entry : entries_) {
      if (equal(entry.first, key)) return &entry.second;
    }
    return nullptr;
  }
  const uint32_t* found = slot(hashed, [&key](const Value& other) { return equal(other, key); });
  return *found ? &entries_[*found - 1].second : nullptr;
}

const Value* Dict::find(std::string_view key) const {
  const auto matches = [key](const Value& other) { return other.text() && other.text()->view() == key; };
  if (index_.empty()) {
    for (const auto& entry : entries_) {
      if (matches(entry.first)) return &entry.second;
    }
    return nullptr;
  }
  const uint32_t* found = slot(std::hash<std::string_view>()(key), matches);
  return *found ? &entries_[*found - 1].second : nullptr;
}

Value make_sequence(Sequence::Kind kind, Items items) {
  auto sequence = make<Sequence>();
  sequence->kind = kind;
  for (const Value& item : items) sequence->depth = deeper(sequence->depth, item);
  sequence->items = std::move(items);
  return std::shared_ptr<const Sequence>(std::move(sequence));
}

Value make_iterator(Items items, std::string_view generator) {
  auto sequence = make<Sequence>();
  sequence->kind = Sequence::Kind::iterator;
  for (const Value& item : items) sequence->depth = deeper(sequence->depth, item);
  sequence->items = std::move(items);
  sequence->generator = generator;
  return std::shared_ptr<const Sequence>(std::move(sequence));
}

Value make_dict(Dict dict) {
  return std::shared_ptr<const Dict>(make<Dict>(std::move(dict)));
}

Value from_json(const boost::json::value& json, bool trusted) {
  check_stack();
  work();
  switch (json.kind()) {
    case boost::json::kind::null:
      return None{};
    case boost::json::kind::bool_:
      return json.get_bool();
    case boost::json::kind::int64:
      return Integer{json.get_int64()};
    case boost::json::kind::uint64:
      if (json.get_uint64() > INT64_MAX) exceed("an integer of the inputs does not fit in 64 bits");
      return static_cast<Integer>(json.get_uint64());
    case boost::json::kind::double_:
      return json.get_double();
    case boost::json::kind::string:
      return Text::borrow(json.get_string(), trusted);
    case boost::json::kind::array: {
      Items items;
      items.reserve(json.get_array().size());
      for (const auto& item : json.get_array()) items.push_back(from_json(item, trusted));
      return make_list(std::move(items));
    }
    case boost::json::kind::object: {
      Dict dict;
      for (const auto& [key, value] : json.get_object()) {
        dict.set(Text::borrow(std::string_view(key.data(), key.size()), trusted), from_json(value, trusted));
      }
      return make_dict(std::move(dict));
    }
  }
  return None{};
}

std::string_view type_name(const Value& value) {
  if (value.undefined()) return "Undefined";
  if (value.none()) return "NoneType";
  if (value.get<bool>()) return "bool";
  if (value.get<Integer>()) return "int";
  if (value.get<double>()) return "float";
  if (value.text()) return "str";
  if (value.dict()) return "dict";
  if (const Object* object = value.object()) return object->type_name();
  const Sequence& sequence = *value.sequence();
  switch (sequence.kind) {
    case Sequence::Kind::list:
      return "list";
    case Sequence::Kind::tuple:
      return "tuple";
    case Sequence::Kind::range:
      return "range";
    case Sequence::Kind::iterator:
      return sequence.generator;
    case Sequence::Kind::keys:
      return "dict_keys";
    case Sequence::Kind::values:
      return "dict_values";
    case Sequence::Kind::items:
      return "dict_items";
  }
  return "object";
}

bool truth(const Value& value) {
  if (value.undefined() || value.none()) return false;
  if (const auto* boolean = value.get<bool>()) return *boolean;
  if (const auto* integer = value.get<Integer>()) return *integer != 0;
  if (const auto* number = value.get<double>()) return *number != 0;
  if (value.sequence(Sequence::Kind::iterator)) return true;
  return length_of(value).value_or(1) != 0;
}

bool equal(const Value& left, const Value& right) {
  work();
  if (const Text* text = left.text()) {
    work(units_of(text->size()));
    return right.text() && text->view() == right.text()->view();
  }
  const auto a = numeric(left), b = numeric(right);
  if (a || b) return a && b && equal_numbers(*a, *b);
  if (left.undefined() || left.none()) {
    return left.undefined() ? right.undefined() != nullptr : right.none();
  }
  if (const Sequence* sequence = left.sequence()) {
    const Sequence* other = right.sequence();
    if (sequence == other) return true;
    if (!other || !comparable_kind(*sequence, *other)) return false;
    check_stack();
    return equal_items(sequence->items, other->items);
  }
  if (const Dict* dict = left.dict()) {
    check_stack();
    return right.dict() && (dict == right.dict() || equal_dicts(*dict, *right.dict()));
  }
  return left.object() && left.object() == right.object();
}

int compare(const Value& left, const Value& right) {
  work();
  if (left.undefined()) fail_undefined(*left.undefined());
  if (right.undefined()) fail_undefined(*right.undefined());
  const auto a = numeric(left), b = numeric(right);
  if (a && b) {
    // Every ordered comparison with a NaN is false; 2 is neither less, equal nor more to the operators.
    return is_unordered_nan(*a, *b) ? 2 : compare_numbers(*a, *b);
  }
  if (left.text() && right.text()) {
    work(units_of(std::min(left.text()->size(), right.text()->size())));
    return sign(left.text()->view().compare(right.text()->view()));
  }
  const Sequence *first = left.sequence(), *second = right.sequence();
  const bool ordered = first && second && first->kind == second->kind &&
                       (first->kind == Sequence::Kind::list || first->kind == Sequence::Kind::tuple);
  if (!ordered) {
    fail("values of types '" + std::string(type_name(left)) + "' and '" + std::string(type_name(right)) +
         "' have no order");
  }
  check_stack();
  const size_t common = std::min(first->items.size(), second->items.size());
  for (size_t i = 0; i < common; ++i) {
    if (!equal(first->items[i], second->items[i])) return compare(first->items[i], second->items[i]);
  }
  return sign(static_cast<Integer>(first->items.size()) - static_cast<Integer>(second->items.size()));
}

bool identical(const Value& left, const Value& right) {
  if (left.sequence() || right.sequence()) return left.sequence() == right.sequence();
  if (left.dict() || right.dict()) return left.dict() == right.dict();
  return type_name(left) == type_name(right) && equal(left, right);
}

size_t hash(const Value& value) {
  work();
  if (const Text* text = value.text()) {
    work(units_of(text->size()));
    return std::hash<std::string_view>()(text->view());
  }
  if (const auto integer = value.integral()) return std::hash<double>()(static_cast<double>(*integer));
  if (const auto* number = value.get<double>()) return std::hash<double>()(*number);
  if (value.none()) return 1;
  if (value.undefined()) return 2;
  if (const Object* object = value.object()) return std::hash<const Object*>()(object);
  const Sequence* tuple = value.sequence(Sequence::Kind::tuple);
  if (!tuple) fail("a value of type '" + std::string(type_name(value)) + "' is unhashable");
  check_stack();
  size_t result = 3;
  for (const Value& item : tuple->items) result = result * 1000003 + hash(item);
  return result;
}

std::optional<Items> iterate(const Value& value) {
  if (value.undefined()) return Items();
  if (const Text* text = value.text()) return characters(*text);
  if (const Dict* dict = value.dict()) {
    Items keys;
    keys.reserve(dict->size());
    for (const auto& entry : dict->entries()) keys.push_back(entry.first);
    return keys;
  }
  const Sequence* sequence = value.sequence();
  if (!sequence) return std::nullopt;
  if (sequence->kind != Sequence::Kind::iterator) return sequence->items;
  Items rest(sequence->items.begin() + static_cast<ptrdiff_t>(sequence->consumed), sequence->items.end());
  sequence->consumed = sequence->items.size();
  return rest;
}

Items items_of(const Value& value) {
  auto items = iterate(value);
  if (!items) fail("a value of type '" + std::string(type_name(value)) + "' is not iterable");
  return std::move(*items);
}

std::optional<size_t> length_of(const Value& value) {
  if (value.undefined()) return 0;
  if (const Text* text = value.text()) return text->length();
  if (const Dict* dict = value.dict()) return dict->size();
  const Sequence* sequence = value.sequence();
  if (!sequence || sequence->kind == Sequence::Kind::iterator) return std::nullopt;
  return sequence->items.size();
}

bool contains(const Value& container, const Value& item) {
  if (const Text* text = container.text()) {
    if (!item.text()) fail("'in <string>' needs a string on its left, not '" + std::string(type_name(item)) + "'");
    return find(text->view(), item.text()->view()) != std::string_view::npos;
  }
  if (const Dict* dict = container.dict()) return dict->find(item) != nullptr;
  if (const Sequence* sequence = container.sequence()) {
    const bool iterator = sequence->kind == Sequence::Kind::iterator;
    for (size_t i = iterator ? sequence->consumed : 0; i < sequence->items.size(); ++i) {
      if (iterator) sequence->consumed = i + 1;
      if (equal(sequence->items[i], item)) return true;
    }
    return false;
  }
  if (container.undefined()) return false;
  fail("a value of type '" + std::string(type_name(container)) + "' is not a container");
}

void fail_undefined(const Undefined& undefined) {
  if (undefined.forbidden) fail("methods that change a value are not allowed in a template");
  fail(undefined.name.empty() ? "a value is undefined" : "'" + std::string(undefined.name) + "' is undefined");
}

}  // namespace martlet::jinja
