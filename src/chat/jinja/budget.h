#pragma once

// What one render may use. Every container of the interpreter allocates through Allocator, which charges the Budget of
// the running thread, so no value, however it is built, can grow past the limit; work() stops what only burns time.

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "chat/chat_template.h"

namespace martlet::jinja {

// How a render or a parse ends early. Thrown inside the room only; ChatTemplate turns it into an Error.
struct Failure {
  enum class Kind { error, limit };
  Kind kind;
  std::string text;     // names of the template may stand in it, bytes of the inputs never
  int64_t offset = -1;  // in the source; -1: where the interpreter stands
};

[[noreturn]] void fail(std::string text);
[[noreturn]] void fail_at(uint32_t offset, std::string text);
[[noreturn]] void exceed(std::string text);

// Threads of the program have at least 512 KiB of stack: a parse or a render may use this much of it.
constexpr ptrdiff_t kStackBytes = 256 << 10;
inline const std::byte* stack_position() {
  return static_cast<const std::byte*>(__builtin_frame_address(0));
}

class Budget {
 public:
  explicit Budget(const TemplateLimits& limits);

  // One unit is about one small evaluation, or 64 bytes moved. Throws once the time is over.
  void work(size_t units);
  void take(size_t bytes);
  void give(size_t bytes) { used_ -= bytes; }
  // Macro calls and recursive loops nest at most limits.depth deep, and the machine stack below the render stays
  // bounded.
  void enter();
  void leave() { --depth_; }
  void check_stack() const;
  const TemplateLimits& limits() const { return limits_; }

  // The budget of the render that runs on this thread; null outside of one.
  static Budget* current();

  // Makes a budget current for its own lifetime.
  class Use {
   public:
    explicit Use(Budget& budget);
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    Budget* previous_;
  };

 private:
  const TemplateLimits limits_;
  const std::chrono::steady_clock::time_point deadline_;
  const std::byte* const stack_base_;
  size_t used_ = 0;
  size_t units_ = 0;
  int depth_ = 0;
};

// Units for `bytes` bytes that are read or written.
inline size_t units_of(size_t bytes) {
  return 1 + bytes / 64;
}
inline void work(size_t units = 1) {
  if (Budget* budget = Budget::current()) budget->work(units);
}
inline void check_stack() {
  if (Budget* budget = Budget::current()) budget->check_stack();
}

// Stateless, so containers copy and move freely. What is allocated outside a render (constants of a program) is not
// charged and must be freed outside one.
template <class T>
struct Allocator {
  using value_type = T;
  Allocator() = default;
  template <class U>
  Allocator(const Allocator<U>&) {}

  T* allocate(size_t count) {
    const size_t bytes = count * sizeof(T);
    if (Budget* budget = Budget::current()) budget->take(bytes);
    return static_cast<T*>(::operator new(bytes));
  }
  void deallocate(T* data, size_t count) {
    if (Budget* budget = Budget::current()) budget->give(count * sizeof(T));
    ::operator delete(data);
  }
  template <class U>
  bool operator==(const Allocator<U>&) const {
    return true;
  }
};

using String = std::basic_string<char, std::char_traits<char>, Allocator<char>>;
template <class T>
using Vector = std::vector<T, Allocator<T>>;

template <class T, class... Args>
std::shared_ptr<T> make(Args&&... args) {
  return std::allocate_shared<T>(Allocator<T>(), std::forward<Args>(args)...);
}

}  // namespace martlet::jinja
