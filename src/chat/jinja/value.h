#pragma once

// Values of the template language: Python's, as far as a sandboxed template can see them. All are immutable but
// namespaces (objects) and iterators (which remember how far they were read).

#include <array>
#include <concepts>
#include <optional>
#include <string_view>
#include <variant>

#include <boost/json/value.hpp>

#include "chat/jinja/text.h"

namespace martlet::jinja {

class Value;
class Dict;
class Interpreter;
struct Arguments;
using Integer = int64_t;
using Items = Vector<Value>;

struct None {};
// Prints as nothing; most other uses fail. `name` (borrowed from the program) is what was missing, where it is known.
// `forbidden`: a method that the sandbox withholds.
struct Undefined {
  std::string_view name;
  bool forbidden = false;
};

// Objects with an identity: functions, macros, loops, namespaces.
class Object : public std::enable_shared_from_this<Object> {
 public:
  virtual ~Object() = default;
  // Nesting of the values that it owns, counted like that of containers: freeing a value recurses this deep.
  virtual int depth() const { return 0; }
  virtual std::string_view type_name() const = 0;
  virtual std::optional<Value> attribute(std::string_view name);
  virtual bool callable() const { return true; }
  virtual Value call(Interpreter& interpreter, Arguments& arguments);
  virtual void represent(TextBuilder& out);
};

struct Sequence {
  enum class Kind : uint8_t { list, tuple, range, iterator, keys, values, items };
  Kind kind = Kind::list;
  Items items;
  int depth = 1;                   // nesting of containers below and including this one
  std::array<Integer, 3> range{};  // start, stop, step of a range
  bool grouped = false;            // a tuple (grouper, list) of the filter groupby, which names its items
  std::string_view generator;      // Python's type name of an iterator
  mutable size_t consumed = 0;     // items that an iterator has given
};

class Value {
 public:
  Value() = default;  // undefined
  Value(Undefined undefined) : state_(undefined) {}
  Value(None) : state_(None{}) {}
  Value(bool boolean) : state_(boolean) {}
  Value(Integer integer) : state_(integer) {}
  Value(int integer) : state_(Integer{integer}) {}
  Value(double number) : state_(number) {}
  Value(Text text) : state_(std::move(text)) {}
  Value(std::shared_ptr<const Sequence> sequence) : state_(std::move(sequence)) {}
  Value(std::shared_ptr<const Dict> dict) : state_(std::move(dict)) {}
  template <std::derived_from<Object> T>
  Value(std::shared_ptr<T> object) : state_(std::shared_ptr<Object>(std::move(object))) {}
  template <class T>
  Value(T*) = delete;  // a string literal would become a bool

  template <class T>
  const T* get() const {
    return std::get_if<T>(&state_);
  }
  const Undefined* undefined() const { return get<Undefined>(); }
  bool none() const { return get<None>() != nullptr; }
  const Text* text() const { return get<Text>(); }
  const Sequence* sequence() const;
  const Sequence* sequence(Sequence::Kind kind) const;
  const Dict* dict() const;
  Object* object() const;
  // Integers and booleans, as Python's int() sees them.
  std::optional<Integer> integral() const;
  // Integers, booleans and floats.
  std::optional<double> number() const;

 private:
  std::variant<Undefined, None, bool, Integer, double, Text, std::shared_ptr<const Sequence>,
               std::shared_ptr<const Dict>, std::shared_ptr<Object>>
      state_;
};

// Keeps the order of insertion.
class Dict {
 public:
  void set(const Value& key, const Value& value);  // fails when the key is unhashable
  const Value* find(const Value& key) const;       // null when absent; fails when the key is unhashable
  const Value* find(std::string_view key) const;
  const Vector<std::pair<Value, Value>>& entries() const { return entries_; }
  size_t size() const { return entries_.size(); }
  int depth() const { return depth_; }

 private:
  template <class Matches>
  const uint32_t* slot(size_t hash, Matches matches) const;
  void index(uint32_t entry);
  Vector<std::pair<Value, Value>> entries_;
  Vector<uint32_t> index_;  // open addressing, entry + 1; built from a few entries on
  int depth_ = 1;
};

// 1 + the nesting of `child`, at least `depth`; fails when that is too deep.
int deeper(int depth, const Value& child);
Value make_sequence(Sequence::Kind kind, Items items);
inline Value make_list(Items items) {
  return make_sequence(Sequence::Kind::list, std::move(items));
}
inline Value make_tuple(Items items) {
  return make_sequence(Sequence::Kind::tuple, std::move(items));
}
// `generator`: a literal, Python's type name.
Value make_iterator(Items items, std::string_view generator = "generator");
Value make_dict(Dict dict);
inline Value make_text(std::string_view bytes, bool trusted = false) {
  return Text(bytes, trusted);
}
// Strings borrow from `json`, which must outlive the value; they are untrusted unless `trusted`.
Value from_json(const boost::json::value& json, bool trusted);

std::string_view type_name(const Value& value);  // Python's: "str", "NoneType"
bool truth(const Value& value);
bool equal(const Value& left, const Value& right);
// Python's <: negative, zero, positive; fails for values without an order.
int compare(const Value& left, const Value& right);
bool identical(const Value& left, const Value& right);  // Python's `is`
size_t hash(const Value& value);                        // fails when unhashable
// What iterating gives; an iterator is used up by it. nullopt when not iterable.
std::optional<Items> iterate(const Value& value);
Items items_of(const Value& value);  // the same; fails when not iterable
std::optional<size_t> length_of(const Value& value);
bool contains(const Value& container, const Value& item);
// Raises what using an undefined value raises.
[[noreturn]] void fail_undefined(const Undefined& undefined);

}  // namespace martlet::jinja
