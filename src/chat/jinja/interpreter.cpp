#include "chat/jinja/interpreter.h"

#include "chat/jinja/objects.h"
#include "chat/jinja/python_string.h"
#include "chat/jinja/represent.h"

namespace martlet::jinja {

void Scope::set(Symbol symbol, Value value) {
  for (auto& [name, old] : variables) {
    if (name == symbol) {
      old = std::move(value);
      return;
    }
  }
  variables.emplace_back(symbol, std::move(value));
}

Interpreter::Interpreter(const Program& program, const boost::json::object& inputs,
                         std::chrono::system_clock::time_point now, Budget& budget)
    : program_(program), inputs_(inputs), now_(now), budget_(budget), globals_(program.symbols.size()) {
  root_ = scope_ = make<Scope>(nullptr);
}

Interpreter::~Interpreter() {
  for (const auto& scope : scopes_) scope->variables.clear();
  for (const auto& space : spaces_) space->attributes = {};
}

void Interpreter::keep(const std::shared_ptr<Scope>& scope) {
  if (scopes_.empty() || scopes_.back() != scope) scopes_.push_back(scope);
}
void Interpreter::keep(const std::shared_ptr<Namespace>& space) {
  spaces_.push_back(space);
}

Rendered Interpreter::run() {
  Pieces pieces;
  out_ = &pieces;
  run_body(program_.body);
  return pieces.rendered();
}

Flow Interpreter::run_body(const Body& body) {
  budget_.check_stack();
  for (const auto& statement : body) {
    budget_.work(1);
    at_ = statement->offset;
    const Flow flow = statement->run(*this);
    if (flow != Flow::next) return flow;
  }
  return Flow::next;
}

Value Interpreter::lookup(Symbol symbol) {
  for (const Scope* scope = scope_.get(); scope; scope = scope->parent.get()) {
    for (const auto& [name, value] : scope->variables) {
      if (name == symbol) return value;
    }
  }
  if (!globals_[symbol]) globals_[symbol] = global(symbol);
  return *globals_[symbol];
}

Value Interpreter::global(Symbol symbol) {
  const std::string& name = program_.symbols[symbol];
  if (const boost::json::value* input = inputs_.if_contains(name)) {
    return from_json(*input, name == "bos_token" || name == "eos_token");
  }
  if (const Builtin* function = find_global(name)) return make<BoundBuiltin>(*function, Value());
  return Undefined{name};
}

void Interpreter::assign(const Target& target, const Value& value) {
  at_ = target.offset;
  if (target.tuple) {
    const Items items = items_of(value);
    if (items.size() != target.items.size()) fail("the number of values to unpack does not fit the number of names");
    for (size_t i = 0; i < items.size(); ++i) assign(target.items[i], items[i]);
    return;
  }
  if (target.attribute.empty()) return scope_->set(target.symbol, value);
  auto* space = dynamic_cast<Namespace*>(lookup(target.symbol).object());
  if (!space) fail("an attribute can be assigned on a namespace only");
  space->attributes.set(target.attribute, value);
}

void Interpreter::write(const Text& text) {
  if (text.size() > budget_.limits().output_bytes - std::min(out_->size(), budget_.limits().output_bytes)) {
    exceed("the output is too long");
  }
  out_->append(text);
}

Value Interpreter::bound_method(const Value& subject, const Text& name, bool& found) {
  found = true;
  if (const Builtin* method = find_method(subject, name.view())) {
    return make<BoundBuiltin>(*method, subject);
  }
  if (is_withheld(subject, name.view())) return Undefined{{}, true};
  if (name.view().substr(0, 2) == "__") fail("names that begin with '__' are not allowed");
  if (subject.number() && (name.view() == "real" || name.view() == "imag")) {
    if (name.view() == "real") return subject.get<bool>() ? Value(*subject.integral()) : subject;
    return subject.get<double>() ? Value(0.0) : Value(0);
  }
  const Sequence* sequence = subject.sequence();
  if (sequence && sequence->grouped && (name.view() == "grouper" || name.view() == "list")) {
    return sequence->items[name.view() == "list"];
  }
  if (Object* object = subject.object()) {
    if (auto value = object->attribute(name.view())) return *value;
  }
  found = false;
  return {};
}

Value Interpreter::attribute(const Value& subject, const Text& name) {
  if (subject.undefined()) fail_undefined(*subject.undefined());
  bool found = false;
  const Dict* dict = subject.dict();
  const Value* entry = dict ? dict->find(name.view()) : nullptr;
  if (entry && name.view().substr(0, 2) == "__") return *entry;
  Value method = bound_method(subject, name, found);
  if (found) return method;
  return entry ? *entry : Value();
}

Value Interpreter::item(const Value& subject, const Value& key) {
  if (subject.undefined()) fail_undefined(*subject.undefined());
  if (const Dict* dict = subject.dict()) {
    const bool hashable = !key.dict() && !(key.sequence() && key.sequence()->kind != Sequence::Kind::tuple);
    if (const Value* entry = hashable ? dict->find(key) : nullptr) return *entry;
  } else if (const auto index = key.integral()) {
    const auto length = subject.text() || subject.sequence() ? length_of(subject) : std::nullopt;
    const Integer at = length && *index < 0 ? *index + static_cast<Integer>(*length) : *index;
    if (!length || at < 0 || at >= static_cast<Integer>(*length)) return {};
    if (const Text* text = subject.text()) return slice(*text, {at, 1, 1});
    const Sequence::Kind kind = subject.sequence()->kind;
    const bool indexable =
        kind == Sequence::Kind::list || kind == Sequence::Kind::tuple || kind == Sequence::Kind::range;
    return indexable ? subject.sequence()->items[static_cast<size_t>(at)] : Value();
  }
  bool found = false;
  if (const Text* name = key.text()) {
    Value method = bound_method(subject, *name, found);
    if (found) return method;
  }
  return {};
}

Value Interpreter::call(const Value& callee, Arguments& arguments) {
  if (callee.undefined()) fail_undefined(*callee.undefined());
  if (Object* object = callee.object()) return object->call(*this, arguments);
  fail("a value of type '" + std::string(type_name(callee)) + "' is not callable");
}

Value Interpreter::call_macro(const MacroCode& code, const std::shared_ptr<Scope>& defined_in, Arguments& arguments) {
  struct Level {
    Budget& budget;
    explicit Level(Budget& b) : budget(b) { budget.enter(); }
    ~Level() { budget.leave(); }
  } level(budget_);
  return capture([&] {
    with_scope(defined_in, [&] {
      bind_parameters(code, arguments);
      run_body(code.body);
    });
  });
}

void Interpreter::bind_parameters(const MacroCode& code, Arguments& arguments) {
  const auto take_named = [&arguments](std::string_view name) -> std::optional<Value> {
    for (auto named = arguments.named.begin(); named != arguments.named.end(); ++named) {
      if (named->first.view() != name) continue;
      Value value = named->second;
      arguments.named.erase(named);
      return value;
    }
    return std::nullopt;
  };
  const size_t count = code.parameters.size();
  bool explicit_caller = false;
  // Defaults are evaluated in order, so that one may use the parameters before it.
  for (size_t i = 0; i < count; ++i) {
    const MacroCode::Parameter& parameter = code.parameters[i];
    explicit_caller |= parameter.symbol == kCaller;
    std::optional<Value> value;
    value = i < arguments.positional.size() ? arguments.positional[i] : take_named(parameter.name.view());
    if (!value)
      value = parameter.fallback ? evaluate(*parameter.fallback) : Value(Undefined{name_of(parameter.symbol)});
    scope_->set(parameter.symbol, *value);
  }
  if (code.takes_caller && !explicit_caller) {
    scope_->set(kCaller, take_named("caller").value_or(Value(Undefined{"caller"})));
  }
  if (code.takes_kwargs) {
    Dict rest;
    for (const auto& [name, value] : arguments.named) rest.set(name, value);
    scope_->set(kKwargs, make_dict(std::move(rest)));
  } else if (!arguments.named.empty()) {
    fail("a macro is called with a keyword argument that it does not take");
  }
  if (code.takes_varargs) {
    Items rest;
    for (size_t i = count; i < arguments.positional.size(); ++i) rest.push_back(arguments.positional[i]);
    scope_->set(kVarargs, make_tuple(std::move(rest)));
  } else if (arguments.positional.size() > count) {
    fail("a macro is called with too many arguments");
  }
}

}  // namespace martlet::jinja
