#include "chat/jinja/objects.h"

#include "chat/jinja/represent.h"

namespace martlet::jinja {
namespace {

// Methods of loops and cyclers; bound to the object by BoundBuiltin.
const Builtin kCycle = {"cycle", {"*"}, 0, [](const Call& call) {
                          const auto& loop = dynamic_cast<const Loop&>(*call.self.object());
                          const Items& items = call.all.positional;
                          if (items.empty()) fail("no items for cycling given");
                          return items[static_cast<size_t>(loop.index0()) % items.size()];
                        }};
const Builtin kChanged = {"changed", {"*"}, 0, [](const Call& call) {
                            return Value(dynamic_cast<Loop&>(*call.self.object()).changed(call.all.positional));
                          }};
const Builtin kNext = {"next", {}, 0, [](const Call& call) {
                         auto& cycler = dynamic_cast<Cycler&>(*call.self.object());
                         const Value value = cycler.items[cycler.position];
                         cycler.position = (cycler.position + 1) % cycler.items.size();
                         return value;
                       }};
const Builtin kReset = {"reset", {}, 0, [](const Call& call) {
                          dynamic_cast<Cycler&>(*call.self.object()).position = 0;
                          return Value(None{});
                        }};

}  // namespace

std::optional<Value> Namespace::attribute(std::string_view name) {
  const Value* value = attributes.find(name);
  return value ? std::optional(*value) : std::nullopt;
}

void Namespace::represent(TextBuilder& out) {
  out.append("<Namespace {", false);
  bool first = true;
  for (const auto& [key, value] : attributes.entries()) {
    if (!std::exchange(first, false)) out.append(", ", false);
    jinja::represent(key, out);
    out.append(": ", false);
    jinja::represent(value, out);
  }
  out.append("}>", false);
}

Value BoundBuiltin::call(Interpreter& interpreter, Arguments& arguments) {
  return run_builtin(builtin, interpreter, self, arguments);
}

std::optional<Value> Macro::attribute(std::string_view name) {
  if (name == "name") return make_text(code.name, true);
  if (name == "catch_kwargs") return code.takes_kwargs;
  if (name == "catch_varargs") return code.takes_varargs;
  if (name == "caller") return code.takes_caller;
  if (name != "arguments") return std::nullopt;
  Items names;
  for (const auto& parameter : code.parameters) names.push_back(parameter.name);
  return make_tuple(std::move(names));
}

Value Macro::call(Interpreter& interpreter, Arguments& arguments) {
  return interpreter.call_macro(code, defined_in, arguments);
}

Loop::Loop(Interpreter& interpreter, const For& loop, const Value& iterable, int depth)
    : interpreter_(interpreter), loop_(loop), scope_(interpreter.scope()), items_(items_of(iterable)), depth_(depth) {
  if (!loop.test) length_ = static_cast<Integer>(items_.size());
}

void Loop::finish() {
  length_ = length_.value_or(0);
  items_ = {};
  position_ = 0;
  scope_.reset();
  before_ = current_ = {};
  after_.reset();
  last_changed_.reset();
  peeked_ = true;
}

std::optional<Value> Loop::fetch() {
  while (position_ < items_.size()) {
    Value item = items_[position_++];
    if (!loop_.test || tested_) return item;
    const bool passes = interpreter_.with_scope(scope_, [&] {
      interpreter_.assign(loop_.target, item);
      return truth(interpreter_.evaluate(*loop_.test));
    });
    if (passes) return item;
  }
  return std::nullopt;
}

const std::optional<Value>& Loop::peek() {
  if (!peeked_) after_ = fetch();
  peeked_ = true;
  return after_;
}

bool Loop::advance() {
  peek();
  peeked_ = false;
  if (!after_) return peeked_ = true, false;
  ++index0_;
  before_ = std::exchange(current_, *std::exchange(after_, std::nullopt));
  return true;
}

// Counting asks the condition for every item to come, once.
Integer Loop::length() {
  if (length_) return *length_;
  const bool more = peek().has_value();
  Items rest;
  while (auto item = fetch()) rest.push_back(std::move(*item));
  length_ = index0_ + 1 + (more ? 1 : 0) + static_cast<Integer>(rest.size());
  items_ = std::move(rest);
  position_ = 0;
  tested_ = true;
  return *length_;
}

std::optional<Value> Loop::attribute(std::string_view name) {
  if (name == "index") return index0_ + 1;
  if (name == "index0") return index0_;
  if (name == "first") return index0_ == 0;
  if (name == "last") return !peek();
  if (name == "length") return length();
  if (name == "revindex") return length() - index0_;
  if (name == "revindex0") return length() - index0_ - 1;
  if (name == "depth") return depth_ + 1;
  if (name == "depth0") return depth_;
  if (name == "previtem") return index0_ == 0 ? Value(Undefined{"previtem"}) : before_;
  if (name == "nextitem") return peek().value_or(Value(Undefined{"nextitem"}));
  if (name == "cycle") return Value(make<BoundBuiltin>(kCycle, shared_from_this()));
  if (name == "changed") return Value(make<BoundBuiltin>(kChanged, shared_from_this()));
  return std::nullopt;
}

void Loop::represent(TextBuilder& out) {
  out.append("<LoopContext " + std::to_string(index0_ + 1) + "/" + std::to_string(length()) + ">", false);
}

bool Loop::changed(const Items& values) {
  if (last_changed_ && equal(make_tuple(*last_changed_), make_tuple(values))) return false;
  last_changed_ = values;
  return true;
}

Value Loop::call(Interpreter& interpreter, Arguments& arguments) {
  if (!scope_) fail("a loop that has ended cannot be called");
  if (!loop_.recursive) fail("only a loop marked 'recursive' can be called");
  if (arguments.positional.size() != 1 || !arguments.named.empty()) fail("a recursive loop takes one argument");
  Budget& budget = interpreter.budget();
  struct Level {
    Budget& budget;
    explicit Level(Budget& b) : budget(b) { budget.enter(); }
    ~Level() { budget.leave(); }
  } level(budget);
  return interpreter.capture([&] {
    interpreter.with_scope(scope_, [&] { return run_loop(interpreter, loop_, arguments.positional[0], depth_ + 1); });
  });
}

Flow run_loop(Interpreter& interpreter, const For& loop, const Value& iterable, int depth) {
  const auto state = make<Loop>(interpreter, loop, iterable, depth);
  // A variable may keep `loop` beyond its end, but not what it iterated over.
  struct Finish {
    Loop& loop;
    ~Finish() { loop.finish(); }
  } finish{*state};
  bool any = false;
  while (state->advance()) {
    const Flow flow = interpreter.with_scope(interpreter.scope(), [&] {
      interpreter.scope()->set(kLoop, state);
      interpreter.assign(loop.target, state->current());
      return interpreter.run_body(loop.body);
    });
    if (flow == Flow::break_loop) break;
    // As in Jinja, an iteration that break or continue left does not count for the loop's else.
    any = any || flow == Flow::next;
  }
  if (any) return Flow::next;
  return interpreter.with_scope(interpreter.scope(), [&] { return interpreter.run_body(loop.otherwise); });
}

int Cycler::depth() const {
  int depth = 1;
  for (const Value& item : items) depth = deeper(depth, item);
  return depth;
}

std::optional<Value> Cycler::attribute(std::string_view name) {
  if (name == "current") return items[position];
  const Builtin* method = name == "next" ? &kNext : name == "reset" ? &kReset : nullptr;
  if (!method) return std::nullopt;
  return Value(make<BoundBuiltin>(*method, shared_from_this()));
}

Value Joiner::call(Interpreter&, Arguments&) {
  return std::exchange(used, true) ? separator : Value(Text());
}

}  // namespace martlet::jinja
