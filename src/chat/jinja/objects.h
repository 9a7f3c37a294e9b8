#pragma once

// Values with an identity and behaviour.

#include "chat/jinja/interpreter.h"

namespace martlet::jinja {

// namespace(...): the one value whose attributes can be assigned.
struct Namespace : Object {
  Dict attributes;
  std::string_view type_name() const override { return "Namespace"; }
  bool callable() const override { return false; }
  std::optional<Value> attribute(std::string_view name) override;
  void represent(TextBuilder& out) override;
};

// A builtin function, or a method together with the value it was taken from.
struct BoundBuiltin : Object {
  BoundBuiltin(const Builtin& function, Value owner)
      : builtin(function), self(std::move(owner)), depth_(deeper(0, self)) {}
  const Builtin& builtin;
  const Value self;
  int depth() const override { return depth_; }
  std::string_view type_name() const override { return "builtin_function_or_method"; }
  Value call(Interpreter& interpreter, Arguments& arguments) override;

 private:
  const int depth_;
};

struct Macro : Object {
  Macro(const MacroCode& macro_code, std::shared_ptr<Scope> scope) : code(macro_code), defined_in(std::move(scope)) {}
  const MacroCode& code;
  const std::shared_ptr<Scope> defined_in;
  std::string_view type_name() const override { return "Macro"; }
  std::optional<Value> attribute(std::string_view name) override;
  Value call(Interpreter& interpreter, Arguments& arguments) override;
};

// The variable `loop`, and the iteration behind it. Items that a loop's own condition refuses are skipped when they are
// reached, not before: the condition may depend on what the body did.
class Loop : public Object {
 public:
  Loop(Interpreter& interpreter, const For& loop, const Value& iterable, int depth);
  // Goes to the next item; false at the end.
  bool advance();
  const Value& current() const { return current_; }
  void finish();

  std::string_view type_name() const override { return "LoopContext"; }
  std::optional<Value> attribute(std::string_view name) override;
  Value call(Interpreter& interpreter, Arguments& arguments) override;  // loop(items) of a recursive loop
  void represent(TextBuilder& out) override;
  bool changed(const Items& values);
  Integer index0() const { return index0_; }

 private:
  std::optional<Value> fetch();  // the next item that passes the condition
  const std::optional<Value>& peek();
  Integer length();

  Interpreter& interpreter_;
  const For& loop_;
  std::shared_ptr<Scope> scope_;  // where the loop stands
  Items items_;
  size_t position_ = 0;
  bool tested_ = false;  // items_ from position_ on have passed the condition
  int depth_;
  Integer index0_ = -1;
  Value current_, before_;
  bool peeked_ = false;
  std::optional<Value> after_;
  std::optional<Integer> length_;
  std::optional<Items> last_changed_;
};

// Runs a loop over `iterable`, writing its output. `depth`: of recursive loops, from 0.
Flow run_loop(Interpreter& interpreter, const For& loop, const Value& iterable, int depth);

// cycler(a, b, ...)
struct Cycler : Object {
  explicit Cycler(Items all) : items(std::move(all)) {}
  const Items items;
  size_t position = 0;
  int depth() const override;
  std::string_view type_name() const override { return "Cycler"; }
  bool callable() const override { return false; }
  std::optional<Value> attribute(std::string_view name) override;
};

// joiner(separator): nothing when first called, the separator from then on.
struct Joiner : Object {
  explicit Joiner(Value text) : separator(std::move(text)) {}
  const Value separator;
  bool used = false;
  int depth() const override { return deeper(0, separator); }
  std::string_view type_name() const override { return "Joiner"; }
  Value call(Interpreter& interpreter, Arguments& arguments) override;
};

}  // namespace martlet::jinja
