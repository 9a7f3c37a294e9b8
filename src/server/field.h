#pragma once

// The kinds of fields that request bodies have. A table of them (api_request.cpp, tokenize.cpp) drives the parsing:
// whatever the table does not name is refused.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/json/value.hpp>

#include "base/error.h"
#include "base/ids.h"
#include "server/error_response.h"

namespace martlet::server {

// What reads one field into a T. `name` is where errors point.
template <class T>
using Reader = std::function<Status(boost::json::value& value, const std::string& name, T& out)>;

template <class T>
struct Field {
  const char* name;
  unsigned endpoints;  // bits: which routes know the field
  Reader<T> read;
};

// Checked values. Each fails with `invalid_value` at `name`.
Result<double> read_number(const boost::json::value& value, const std::string& name, double low, double high);
Result<int64_t> read_integer(const boost::json::value& value, const std::string& name, int64_t low, int64_t high);
Result<bool> read_boolean(const boost::json::value& value, const std::string& name);
Result<std::string> read_string(const boost::json::value& value, const std::string& name);
// An array of token ids below `vocabulary`; fails with `invalid_token_id` at `name[i]`.
Result<std::vector<Token>> read_tokens(const boost::json::value& value, const std::string& name, int32_t vocabulary);
Error unsupported(const std::string& name);

// Readers for a table: `member` says where the value goes.
template <class T, class Member>
Reader<T> number(double low, double high, Member member) {
  return [=](boost::json::value& value, const std::string& name, T& out) -> Status {
    MARTLET_ASSIGN(const double read, read_number(value, name, low, high));
    std::invoke(member, out) = static_cast<float>(read);
    return {};
  };
}

template <class T, class Member>
Reader<T> integer(int64_t low, int64_t high, Member member) {
  return [=](boost::json::value& value, const std::string& name, T& out) -> Status {
    MARTLET_ASSIGN(const int64_t read, read_integer(value, name, low, high));
    std::invoke(member, out) = static_cast<int32_t>(read);
    return {};
  };
}

template <class T>
Reader<T> boolean(bool T::*member) {
  return [=](boost::json::value& value, const std::string& name, T& out) -> Status {
    MARTLET_ASSIGN(out.*member, read_boolean(value, name));
    return {};
  };
}

template <class T>
Reader<T> string(std::string T::*member) {
  return [=](boost::json::value& value, const std::string& name, T& out) -> Status {
    MARTLET_ASSIGN(out.*member, read_string(value, name));
    return {};
  };
}

// Takes the value as it is; whoever uses it checks it.
template <class T>
Reader<T> raw(boost::json::value T::*member) {
  return [=](boost::json::value& value, const std::string&, T& out) -> Status {
    out.*member = std::move(value);
    return {};
  };
}

// A field of which one value says what happens anyway; every other one is refused.
template <class T>
Reader<T> only(boost::json::value accepted) {
  return [accepted = std::move(accepted)](boost::json::value& value, const std::string& name, T&) -> Status {
    if (value == accepted) return {};
    return unsupported(name);
  };
}

// Reads every field of `body` by the table. null means absent, as clients send it; unknown names are refused.
template <class T>
Status read_fields(boost::json::object& body, const std::vector<Field<T>>& table, unsigned endpoint, T& out) {
  for (auto& member : body) {
    const std::string_view key(member.key());
    const Field<T>* found = nullptr;
    for (const Field<T>& row : table) {
      if ((row.endpoints & endpoint) && key == row.name) found = &row;
    }
    if (!found) return unsupported(std::string(key));
    if (!member.value().is_null()) MARTLET_TRY(found->read(member.value(), found->name, out));
  }
  return {};
}

}  // namespace martlet::server
