#pragma once

// How a configuration's keys are read: a table of them drives the reading, and what no table names is refused.

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "gateway/config_file.h"

namespace martlet::gateway::keys {

inline constexpr int64_t kMaxBytes = int64_t{1} << 50;
inline constexpr int64_t kDay = 24 * 3600 * 1000;

// Where errors point, and what they say.
struct Place {
  const std::string& file;
  int line;
  std::string key = {};  // "pressure.warning"; empty outside of all keys
  Error error(const std::string& text) const {
    return {ErrorKind::usage, "bad_config", key.empty() ? text : key + ": " + text, file + ":" + std::to_string(line)};
  }
};

// Reads the value of one key into a T.
template <class T>
using Reader = std::function<Status(const ConfigNode&, const Place&, T&)>;

template <class T>
struct Key {
  const char* name;
  Reader<T> read;
};

template <class T>
Status read_object(const ConfigNode& node, const Place& place, const std::vector<Key<T>>& keys, T& out) {
  if (!node.object()) return place.error("must be an object");
  for (const ConfigNode& value : *node.object()) {
    const auto key = std::find_if(keys.begin(), keys.end(), [&](const Key<T>& k) { return value.name == k.name; });
    if (key == keys.end()) return Place{place.file, value.line, place.key}.error("this key is not known here");
    const Place here{place.file, value.line, (place.key.empty() ? "" : place.key + ".") + key->name};
    MARTLET_TRY(key->read(value, here, out));
  }
  return {};
}

// Values, checked.
Result<std::string> text_of(const ConfigNode& node, const Place& place);
Result<double> number_of(const ConfigNode& node, const Place& place, double low, double high);
Result<int64_t> integer_of(const ConfigNode& node, const Place& place, int64_t low, int64_t high);
// 1073741824, "1GiB", "800MB".
Result<int64_t> bytes_of(const ConfigNode& node, const Place& place);
// A secret, or "env:NAME" for the value of that variable.
Result<std::string> secret_of(const ConfigNode& node, const Place& place);

// Readers for a table: `member` says where the value goes.
template <class T>
Reader<T> text(std::string T::*member) {
  return [=](const ConfigNode& node, const Place& place, T& out) -> Status {
    MARTLET_ASSIGN(out.*member, text_of(node, place));
    if ((out.*member).empty()) return place.error("must not be empty");
    return {};
  };
}

template <class T, class M>
Reader<T> integer(M T::*member, int64_t low, int64_t high) {
  return [=](const ConfigNode& node, const Place& place, T& out) -> Status {
    MARTLET_ASSIGN(const int64_t number, integer_of(node, place, low, high));
    out.*member = static_cast<M>(number);
    return {};
  };
}

template <class T>
Reader<T> number(double T::*member, double low, double high) {
  return [=](const ConfigNode& node, const Place& place, T& out) -> Status {
    MARTLET_ASSIGN(out.*member, number_of(node, place, low, high));
    return {};
  };
}

template <class T>
Reader<T> boolean(bool T::*member) {
  return [=](const ConfigNode& node, const Place& place, T& out) -> Status {
    const boost::json::value* value = node.scalar();
    if (!value || !value->is_bool()) return place.error("must be true or false");
    out.*member = value->as_bool();
    return {};
  };
}

template <class T>
Reader<T> bytes(int64_t T::*member) {
  return [=](const ConfigNode& node, const Place& place, T& out) -> Status {
    MARTLET_ASSIGN(out.*member, bytes_of(node, place));
    return {};
  };
}

template <class T, class D>
Reader<T> milliseconds(D T::*member, int64_t low) {
  return [=](const ConfigNode& node, const Place& place, T& out) -> Status {
    MARTLET_ASSIGN(const int64_t number, integer_of(node, place, low, kDay));
    out.*member = std::chrono::duration_cast<D>(std::chrono::milliseconds(number));
    return {};
  };
}

// An array, each item read by `one` into the end of a vector.
template <class T, class V, class One>
Reader<T> list(std::vector<V> T::*member, One one) {
  return [=](const ConfigNode& node, const Place& place, T& out) -> Status {
    if (!node.array()) return place.error("must be an array");
    for (const ConfigNode& item : *node.array()) {
      MARTLET_ASSIGN(V value, one(item, Place{place.file, item.line, place.key}));
      (out.*member).push_back(std::move(value));
    }
    return {};
  };
}

template <class T, class M, class E>
Reader<T> choice(M T::*member, std::vector<std::pair<const char*, E>> choices) {
  return [=](const ConfigNode& node, const Place& place, T& out) -> Status {
    MARTLET_ASSIGN(const std::string text, text_of(node, place));
    std::string known;
    for (const auto& [name, value] : choices) {
      if (text == name) return out.*member = value, Status();
      known += (known.empty() ? "" : ", ") + std::string(name);
    }
    return place.error("must be one of: " + known);
  };
}

template <class T, class P>
Reader<T> part(P T::*member, const std::vector<Key<P>>& keys) {
  return [=, &keys](const ConfigNode& node, const Place& place, T& out) -> Status {
    return read_object(node, place, keys, out.*member);
  };
}

}  // namespace martlet::gateway::keys
