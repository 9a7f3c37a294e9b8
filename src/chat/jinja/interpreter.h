#pragma once

// Runs a program: scopes, output, calls.

#include <chrono>
#include <deque>

#include <boost/json/object.hpp>

#include "chat/jinja/ast.h"

namespace martlet::jinja {

// Variables of one block, loop iteration or macro call. Lookups go outwards through `parent`.
struct Scope {
  explicit Scope(std::shared_ptr<Scope> outer) : parent(std::move(outer)) {}
  std::shared_ptr<Scope> parent;
  Vector<std::pair<Symbol, Value>> variables;

  void set(Symbol symbol, Value value);
};

struct Namespace;

class Interpreter {
 public:
  // All arguments must outlive the interpreter. The Budget of the render must be current.
  Interpreter(const Program& program, const boost::json::object& inputs, std::chrono::system_clock::time_point now,
              Budget& budget);
  ~Interpreter();
  Rendered run();

  // Evaluating.
  Value evaluate(const Expression& expression) {
    budget_.work(1);
    budget_.check_stack();
    at_ = expression.offset;
    return expression.evaluate(*this);
  }
  Flow run_body(const Body& body);
  uint32_t at() const { return at_; }
  void set_at(uint32_t offset) { at_ = offset; }

  // Variables.
  Value lookup(Symbol symbol);
  void assign(const Target& target, const Value& value);
  const std::string& name_of(Symbol symbol) const { return program_.symbols[symbol]; }
  const std::shared_ptr<Scope>& scope() const { return scope_; }
  const std::shared_ptr<Scope>& root() const { return root_; }
  // Runs `body` with a new scope inside `parent`.
  template <class Body>
  auto with_scope(std::shared_ptr<Scope> parent, Body body);

  // Output.
  void write(const Text& text);
  template <class Write>
  Text capture(Write write);  // what `write` writes, instead of writing it

  // Values.
  Value attribute(const Value& subject, const Text& name);  // subject.name
  Value item(const Value& subject, const Value& key);       // subject[key]
  Value call(const Value& callee, Arguments& arguments);
  Value call_macro(const MacroCode& code, const std::shared_ptr<Scope>& defined_in, Arguments& arguments);
  // What can be part of a cycle of references (namespaces, scopes that macros refer to) is kept, and emptied at the
  // end.
  void keep(const std::shared_ptr<Scope>& scope);
  void keep(const std::shared_ptr<Namespace>& space);

  std::chrono::system_clock::time_point now() const { return now_; }
  Budget& budget() { return budget_; }

 private:
  Value bound_method(const Value& subject, const Text& name, bool& found);
  Value global(Symbol symbol);
  void bind_parameters(const MacroCode& code, Arguments& arguments);

  const Program& program_;
  const boost::json::object& inputs_;
  const std::chrono::system_clock::time_point now_;
  Budget& budget_;
  uint32_t at_ = 0;
  Pieces* out_ = nullptr;
  std::shared_ptr<Scope> root_, scope_;
  Vector<std::optional<Value>> globals_;  // by symbol: inputs and functions, converted when first used
  Vector<std::shared_ptr<Scope>> scopes_;
  Vector<std::shared_ptr<Namespace>> spaces_;
};

template <class Body>
auto Interpreter::with_scope(std::shared_ptr<Scope> parent, Body body) {
  struct Restore {
    Interpreter& self;
    std::shared_ptr<Scope> outer;
    ~Restore() { self.scope_ = std::move(outer); }
  } restore{*this, scope_};
  scope_ = make<Scope>(std::move(parent));
  return body();
}

template <class Write>
Text Interpreter::capture(Write write) {
  Pieces pieces;
  struct Restore {
    Interpreter& self;
    Pieces* outer;
    ~Restore() { self.out_ = outer; }
  } restore{*this, out_};
  out_ = &pieces;
  write();
  return pieces.join();
}

}  // namespace martlet::jinja
