#include "chat/jinja/budget.h"

namespace martlet::jinja {
namespace {

// The clock is read once for this many units of work: about 20 microseconds.
constexpr size_t kUnitsPerClock = 256;

thread_local Budget* current_budget = nullptr;

}  // namespace

void fail(std::string text) {
  throw Failure{Failure::Kind::error, std::move(text)};
}
void fail_at(uint32_t offset, std::string text) {
  throw Failure{Failure::Kind::error, std::move(text), offset};
}
void exceed(std::string text) {
  throw Failure{Failure::Kind::limit, std::move(text)};
}

Budget::Budget(const TemplateLimits& limits)
    : limits_(limits), deadline_(std::chrono::steady_clock::now() + limits.time), stack_base_(stack_position()) {}

void Budget::work(size_t units) {
  units_ += units;
  if (units_ < kUnitsPerClock) return;
  units_ = 0;
  if (std::chrono::steady_clock::now() >= deadline_) exceed("the render takes too long");
}

void Budget::take(size_t bytes) {
  if (bytes > limits_.memory_bytes - used_) exceed("the render needs too much memory");
  work(bytes / 64);
  used_ += bytes;
}

void Budget::enter() {
  check_stack();
  if (depth_ >= limits_.depth) exceed("calls are nested too deeply");
  ++depth_;
}

void Budget::check_stack() const {
  if (stack_base_ - stack_position() > kStackBytes) exceed("expressions are nested too deeply");
}

Budget* Budget::current() {
  return current_budget;
}
Budget::Use::Use(Budget& budget) : previous_(current_budget) {
  current_budget = &budget;
}
Budget::Use::~Use() {
  current_budget = previous_;
}

}  // namespace martlet::jinja
