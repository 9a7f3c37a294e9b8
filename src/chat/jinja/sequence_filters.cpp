// Filters over lists, dicts and whatever else can be iterated.

#include "chat/jinja/interpreter.h"
#include "chat/jinja/python_string.h"
#include "chat/jinja/represent.h"

namespace martlet::jinja {
namespace {

// "a.b.0": names and numbers; anything else is one part.
Items attribute_parts(const Value& attribute) {
  const Text* text = attribute.text();
  if (!text) return {attribute};
  Items parts;
  const Text dot(".", true);
  for (const Value& part : split(*text, &dot, -1)) {
    const std::string_view bytes = part.text()->view();
    const bool number = !bytes.empty() && bytes.size() < 18 &&
                        std::all_of(bytes.begin(), bytes.end(), [](char c) { return c >= '0' && c <= '9'; });
    parts.push_back(number ? Value(Integer{std::stoll(std::string(bytes))}) : part);
  }
  return parts;
}

// Reads one attribute of many items.
class Getter {
 public:
  Getter(const Call& call, const Value* attribute, const Value* fallback = nullptr)
      : interpreter_(call.interpreter), fallback_(fallback && !fallback->none() ? fallback : nullptr) {
    if (attribute && !attribute->none()) parts_ = attribute_parts(*attribute);
  }

  Value operator()(const Value& item) const {
    Value value = item;
    for (const Value& part : parts_) {
      value = interpreter_.item(value, part);
      if (value.undefined() && fallback_) value = *fallback_;
    }
    return value;
  }

 private:
  Interpreter& interpreter_;
  Items parts_;
  const Value* fallback_;
};

Value folded(const Value& value, bool case_sensitive) {
  return value.text() && !case_sensitive ? Value(lower(*value.text())) : value;
}

// Stable, by keys; reversed order keeps equal items in their order, as Python's sorted(reverse=True).
Items sort_by_keys(const Items& items, const Items& keys, bool reverse) {
  Vector<size_t> order(items.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return reverse ? compare(keys[b], keys[a]) == -1 : compare(keys[a], keys[b]) == -1;
  });
  Items sorted;
  sorted.reserve(items.size());
  for (const size_t i : order) sorted.push_back(items[i]);
  return sorted;
}

Items keys_of(const Items& items, const Getter& getter, bool case_sensitive) {
  Items keys;
  keys.reserve(items.size());
  for (const Value& item : items) keys.push_back(folded(getter(item), case_sensitive));
  return keys;
}

Value sort(const Call& call) {
  const Items items = items_of(call.self);
  const bool case_sensitive = call.boolean(1, false);
  // "a,b" sorts by several attributes.
  Vector<Getter> getters;
  if (call.argument(2) && call.argument(2)->text()) {
    const Text comma(",", true);
    for (const Value& attribute : split(*call.argument(2)->text(), &comma, -1)) getters.emplace_back(call, &attribute);
  } else {
    getters.emplace_back(call, call.argument(2));
  }
  Items keys;
  for (const Value& item : items) {
    Items key;
    for (const Getter& getter : getters) key.push_back(folded(getter(item), case_sensitive));
    keys.push_back(make_list(std::move(key)));
  }
  return make_list(sort_by_keys(items, keys, call.boolean(0, false)));
}

Value dictsort(const Call& call) {
  const Text by = call.text(1, Text("key", true));
  const bool by_value = by.view() == "value";
  if (!by_value && by.view() != "key") fail("dictsort() sorts by \"key\" or \"value\"");
  Items items, keys;
  for (const auto& [key, value] : need_dict(call.self).entries()) {
    items.push_back(make_tuple({key, value}));
    keys.push_back(folded(by_value ? value : key, call.boolean(0, false)));
  }
  return make_list(sort_by_keys(items, keys, call.boolean(2, false)));
}

Value unique(const Call& call) {
  const Getter getter(call, call.argument(1));
  Dict seen;
  Items kept;
  for (const Value& item : items_of(call.self)) {
    const Value key = folded(getter(item), call.boolean(0, false));
    if (seen.find(key)) continue;
    seen.set(key, None{});
    kept.push_back(item);
  }
  return make_iterator(std::move(kept));
}

Value groupby(const Call& call) {
  const Getter getter(call, call.argument(0), call.argument(1));
  const bool case_sensitive = call.boolean(2, false);
  const Items unsorted = items_of(call.self);
  const Items items = sort_by_keys(unsorted, keys_of(unsorted, getter, case_sensitive), false);
  const Items keys = keys_of(items, getter, case_sensitive);
  Items groups;
  for (size_t begin = 0, end = 0; begin < items.size(); begin = end) {
    while (end < items.size() && equal(keys[end], keys[begin])) ++end;
    auto group = make<Sequence>();
    group->kind = Sequence::Kind::tuple;
    group->grouped = true;
    Items members(items.begin() + static_cast<ptrdiff_t>(begin), items.begin() + static_cast<ptrdiff_t>(end));
    group->items = {getter(items[begin]), make_list(std::move(members))};
    for (const Value& part : group->items) group->depth = deeper(group->depth, part);
    groups.push_back(std::shared_ptr<const Sequence>(std::move(group)));
  }
  return make_list(std::move(groups));
}

template <int wanted>  // -1: the least, 1: the greatest
Value extreme(const Call& call) {
  const Items items = items_of(call.self);
  const Items keys = keys_of(items, Getter(call, call.argument(1)), call.boolean(0, false));
  if (items.empty()) return {};
  size_t best = 0;
  for (size_t i = 1; i < items.size(); ++i) {
    if (compare(keys[i], keys[best]) == wanted) best = i;
  }
  return items[best];
}

Value join(const Call& call) {
  const Getter getter(call, call.argument(1));
  const Text separator = call.argument(0) ? to_text(*call.argument(0)) : Text();
  Pieces pieces;
  bool first = true;
  for (const Value& item : items_of(call.self)) {
    if (!std::exchange(first, false)) pieces.append(separator);
    pieces.append(to_text(getter(item)));
    work();
  }
  return pieces.join();
}

// map() and select() take any false value, None too, for nothing.
Items items_or_none(const Value& value) {
  return truth(value) ? items_of(value) : Items();
}

// map('filter', arguments ...) or map(attribute='name', default=...)
Value map(const Call& call) {
  const Arguments& all = call.all;
  Items out;
  if (all.positional.empty()) {
    const Value *attribute = nullptr, *fallback = nullptr;
    for (const auto& [name, value] : all.named) {
      if (name.view() == "attribute")
        attribute = &value;
      else if (name.view() == "default")
        fallback = &value;
      else
        fail("unexpected keyword argument of map()");
    }
    if (!attribute) fail("map() wants a filter or an attribute");
    const Getter getter(call, attribute, fallback);
    for (const Value& item : items_or_none(call.self)) out.push_back(getter(item));
    return make_iterator(std::move(out));
  }
  const Builtin* filter = find_filter(need_text(all.positional[0]).view());
  if (!filter) fail("map() names an unknown filter");
  const Arguments rest{Items(all.positional.begin() + 1, all.positional.end()), all.named};
  for (const Value& item : items_or_none(call.self)) out.push_back(run_builtin(*filter, call.interpreter, item, rest));
  return make_iterator(std::move(out));
}

// select('test', arguments ...), selectattr('attribute', 'test', arguments ...); without a test: by truth.
template <bool keep, bool by_attribute>
Value select(const Call& call) {
  const Items& given = call.all.positional;
  const size_t first = by_attribute ? 1 : 0;
  if (given.size() < first) fail("the name of an attribute is missing");
  const Getter getter(call, by_attribute ? &given[0] : nullptr);
  const Builtin* test = nullptr;
  Arguments rest{{}, call.all.named};
  if (given.size() > first) {
    test = find_test(need_text(given[first]).view());
    if (!test) fail("an unknown test is named");
    rest.positional.assign(given.begin() + static_cast<ptrdiff_t>(first) + 1, given.end());
  }
  Items out;
  for (const Value& item : items_or_none(call.self)) {
    const Value value = getter(item);
    const Value result = test ? run_builtin(*test, call.interpreter, value, rest) : value;
    if (truth(result) == keep) out.push_back(item);
  }
  return make_iterator(std::move(out));
}

Value first(const Call& call) {
  const Sequence* iterator = call.self.sequence(Sequence::Kind::iterator);
  if (iterator) return iterator->consumed < iterator->items.size() ? iterator->items[iterator->consumed++] : Value();
  if (const Text* text = call.self.text()) return text->empty() ? Value() : Value(slice(*text, {0, 1, 1}));
  const Items items = items_of(call.self);
  return items.empty() ? Value() : items.front();
}

Value last(const Call& call) {
  if (call.self.sequence(Sequence::Kind::iterator)) fail("a generator has no last item");
  const Items items = items_of(call.self);
  return items.empty() ? Value() : items.back();
}

Value length(const Call& call) {
  const auto length = length_of(call.self);
  if (!length) fail("a value of type '" + std::string(type_name(call.self)) + "' has no length");
  return static_cast<Integer>(*length);
}

Value reverse(const Call& call) {
  if (const Text* text = call.self.text()) {
    return slice(*text, slice_range(text->length(), std::nullopt, std::nullopt, -1));
  }
  const bool iterator = call.self.sequence(Sequence::Kind::iterator) != nullptr;
  Items items = items_of(call.self);
  std::reverse(items.begin(), items.end());
  return iterator ? make_list(std::move(items)) : make_iterator(std::move(items), "list_reverseiterator");
}

Value items(const Call& call) {
  Items pairs;
  if (!call.self.undefined()) {
    for (const auto& [key, value] : need_dict(call.self).entries()) pairs.push_back(make_tuple({key, value}));
  }
  return make_iterator(std::move(pairs));
}

Value batch(const Call& call) {
  const Integer size = call.integer(0);
  Items batches, current;
  for (const Value& item : items_of(call.self)) {
    if (static_cast<Integer>(current.size()) == size) batches.push_back(make_list(std::exchange(current, {})));
    current.push_back(item);
  }
  if (!current.empty()) {
    while (!call.none(1) && static_cast<Integer>(current.size()) < size) current.push_back(*call.argument(1));
    batches.push_back(make_list(std::move(current)));
  }
  return make_iterator(std::move(batches));
}

// Cuts into `slices` lists of nearly equal length.
Value slice_filter(const Call& call) {
  const Items items = items_of(call.self);
  const Integer slices = call.integer(0);
  if (slices == 0) fail("division by zero");
  const Integer size = static_cast<Integer>(items.size()) / slices,
                longer = static_cast<Integer>(items.size()) % slices;
  Items out;
  auto at = items.begin();
  for (Integer i = 0; i < slices; ++i) {
    const auto end = at + size + (i < longer ? 1 : 0);
    Items part(at, end);
    if (!call.none(1) && i >= longer) part.push_back(*call.argument(1));
    out.push_back(make_list(std::move(part)));
    at = end;
  }
  return make_iterator(std::move(out));
}

Value attribute(const Call& call) {
  const Text name = call.text(0);
  const bool entry_only = call.self.dict() && !name.view().starts_with("__") && !find_method(call.self, name.view()) &&
                          !is_withheld(call.self, name.view());
  return entry_only ? Value() : call.interpreter.attribute(call.self, name);
}

Value fallback(const Call& call) {
  const bool missing = call.self.undefined() || (call.boolean(1, false) && !truth(call.self));
  if (!missing) return call.self;
  return call.argument(0) ? *call.argument(0) : Value(Text());
}

constexpr Builtin kFilters[] = {
    {"attr", {"name"}, 1, attribute},
    {"batch", {"linecount", "fill_with"}, 1, batch},
    {"count", {}, 0, length},
    {"d", {"default_value", "boolean"}, 0, fallback},
    {"default", {"default_value", "boolean"}, 0, fallback},
    {"dictsort", {"case_sensitive", "by", "reverse"}, 0, dictsort},
    {"first", {}, 0, first},
    {"groupby", {"attribute", "default", "case_sensitive"}, 1, groupby},
    {"items", {}, 0, items},
    {"join", {"d", "attribute"}, 0, join},
    {"last", {}, 0, last},
    {"length", {}, 0, length},
    {"list", {}, 0, [](const Call& call) { return make_list(items_of(call.self)); }},
    {"map", {"*"}, 0, map},
    {"max", {"case_sensitive", "attribute"}, 0, extreme<1>},
    {"min", {"case_sensitive", "attribute"}, 0, extreme<-1>},
    {"reject", {"*"}, 0, select<false, false>},
    {"rejectattr", {"*"}, 0, select<false, true>},
    {"reverse", {}, 0, reverse},
    {"select", {"*"}, 0, select<true, false>},
    {"selectattr", {"*"}, 0, select<true, true>},
    {"slice", {"slices", "fill_with"}, 1, slice_filter},
    {"sort", {"reverse", "case_sensitive", "attribute"}, 0, sort},
    {"unique", {"case_sensitive", "attribute"}, 0, unique},
};

}  // namespace

std::span<const Builtin> sequence_filters() {
  return kFilters;
}

}  // namespace martlet::jinja
