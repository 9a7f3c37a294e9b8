#pragma once

// Errors that a user, a file, a network or a model may cause travel as Result<T>; assertions are for bugs only.
// An error says what was wrong (`text`, fixed words, never user bytes), where (`where`: file@offset, a field, a flag)
// and, inside the text, what to do.

#include <cassert>
#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace martlet {

// What kind of thing went wrong: decides the process exit code and the HTTP status.
enum class ErrorKind {
  usage,        // a flag or argument: exit 2
  model,        // a bad model file: exit 3, HTTP 400
  memory,       // does not fit under the ceiling: exit 4
  io,           // file or device: exit 5
  network,      // network or verification: exit 6
  request,      // a bad API request: HTTP 400
  unavailable,  // cannot be served now: HTTP 503
  internal,     // ours: HTTP 500
};

struct Error {
  ErrorKind kind = ErrorKind::internal;
  std::string code;   // stable, snake_case: "bad_header"
  std::string text;   // fixed words: what was wrong and what to do
  std::string where;  // "model.gguf@128", "--threads", "messages[2].role"; may be empty

  // `error[code]: text (where)`, one line, control characters replaced.
  std::string line() const;
};

int exit_code(ErrorKind kind);

// A value or an Error. Never empty.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}
  Result(Error error) : state_(std::move(error)) {}

  explicit operator bool() const { return state_.index() == 0; }
  T& value() & { return assert(*this), std::get<0>(state_); }
  const T& value() const& { return assert(*this), std::get<0>(state_); }
  T&& value() && { return assert(*this), std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  Error& error() { return assert(!*this), std::get<1>(state_); }
  const Error& error() const { return assert(!*this), std::get<1>(state_); }

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}
  explicit operator bool() const { return !error_; }
  Error& error() { return assert(error_), *error_; }
  const Error& error() const { return assert(error_), *error_; }

 private:
  std::optional<Error> error_;
};

using Status = Result<void>;

// MARTLET_TRY(expr): returns the error of a Status or Result from the enclosing function.
// MARTLET_ASSIGN(declaration, expr): declares and takes the value, or returns the error.
#define MARTLET_CONCAT_(a, b) a##b
#define MARTLET_CONCAT(a, b) MARTLET_CONCAT_(a, b)
#define MARTLET_TRY(expr)                                          \
  do {                                                             \
    auto martlet_status = (expr);                                  \
    if (!martlet_status) return std::move(martlet_status.error()); \
  } while (0)
#define MARTLET_ASSIGN_(result, declaration, expr) \
  auto result = (expr);                            \
  if (!result) return std::move(result.error());   \
  declaration = std::move(*result)
#define MARTLET_ASSIGN(declaration, expr) MARTLET_ASSIGN_(MARTLET_CONCAT(martlet_result_, __LINE__), declaration, expr)

}  // namespace martlet
