#pragma once

// The parsed template. Chains (a + b + c, a.b.c|d, elif) are flat, so the depth of the tree is the depth of nesting
// that the template really has, which the parser bounds. Immutable once parsed.

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "chat/jinja/builtin.h"
#include "chat/jinja/value.h"

namespace martlet::jinja {

using Symbol = uint32_t;  // an interned name: an index into Program::symbols

struct Node {
  uint32_t offset = 0;  // in the source
  virtual ~Node() = default;
};

struct Expression : Node {
  virtual Value evaluate(Interpreter& interpreter) const = 0;
};
using ExpressionPtr = std::unique_ptr<const Expression>;
using Expressions = std::vector<ExpressionPtr>;

struct Constant : Expression {
  Value value;
  Value evaluate(Interpreter& interpreter) const override;
};
struct Name : Expression {
  Symbol symbol;
  Value evaluate(Interpreter& interpreter) const override;
};
struct SequenceLiteral : Expression {
  Sequence::Kind kind;
  Expressions items;
  Value evaluate(Interpreter& interpreter) const override;
};
struct DictLiteral : Expression {
  std::vector<std::pair<ExpressionPtr, ExpressionPtr>> entries;
  Value evaluate(Interpreter& interpreter) const override;
};
struct Logical : Expression {  // a and b and c; a or b or c
  bool conjunction;
  Expressions operands;
  Value evaluate(Interpreter& interpreter) const override;
};
struct Negation : Expression {  // not a
  ExpressionPtr operand;
  Value evaluate(Interpreter& interpreter) const override;
};
using CompareFunction = bool (*)(const Value& left, const Value& right);
struct Comparison : Expression {  // a < b <= c
  ExpressionPtr first;
  std::vector<std::pair<CompareFunction, ExpressionPtr>> rest;
  Value evaluate(Interpreter& interpreter) const override;
};
using ArithmeticFunction = Value (*)(const Value& left, const Value& right);
struct Arithmetic : Expression {  // a + b - c
  ExpressionPtr first;
  std::vector<std::pair<ArithmeticFunction, ExpressionPtr>> rest;
  Value evaluate(Interpreter& interpreter) const override;
};
struct Concatenation : Expression {  // a ~ b ~ c
  Expressions operands;
  Value evaluate(Interpreter& interpreter) const override;
};
struct Sign : Expression {  // -a, +a
  bool negative;
  ExpressionPtr operand;
  Value evaluate(Interpreter& interpreter) const override;
};
struct Conditional : Expression {       // a if test else b
  ExpressionPtr test, then, otherwise;  // otherwise: may be null
  Value evaluate(Interpreter& interpreter) const override;
};

struct CallArguments {
  Expressions positional;
  std::vector<std::pair<Text, ExpressionPtr>> named;
  ExpressionPtr star, double_star;  // may be null
  Arguments evaluate(Interpreter& interpreter) const;
};

// What follows a value: .name [item] [a:b:c] (call) .name(call) |filter "is test".
struct Step : Node {
  virtual Value apply(Interpreter& interpreter, const Value& subject) const = 0;
};
using Steps = std::vector<std::unique_ptr<const Step>>;

struct Postfix : Expression {
  ExpressionPtr base;
  Steps steps;
  Value evaluate(Interpreter& interpreter) const override;
};
struct AttributeStep : Step {
  Text name;
  Value apply(Interpreter& interpreter, const Value& subject) const override;
};
struct ItemStep : Step {
  ExpressionPtr key;
  Value apply(Interpreter& interpreter, const Value& subject) const override;
};
struct SliceStep : Step {
  ExpressionPtr start, stop, step;  // may be null
  Value apply(Interpreter& interpreter, const Value& subject) const override;
};
struct CallStep : Step {
  CallArguments arguments;
  Value apply(Interpreter& interpreter, const Value& subject) const override;
};
struct MethodStep : Step {
  Text name;
  CallArguments arguments;
  Value apply(Interpreter& interpreter, const Value& subject) const override;
};
struct FilterStep : Step {
  const Builtin* filter;  // null: unknown, an error once it is reached
  CallArguments arguments;
  Value apply(Interpreter& interpreter, const Value& subject) const override;
};
struct TestStep : Step {
  const Builtin* test;  // null: unknown, an error once it is reached
  bool negated;
  CallArguments arguments;
  Value apply(Interpreter& interpreter, const Value& subject) const override;
};

enum class Flow : uint8_t { next, break_loop, continue_loop };
struct Statement : Node {
  virtual Flow run(Interpreter& interpreter) const = 0;
};
using Body = std::vector<std::unique_ptr<const Statement>>;

// Where a value is stored: name, namespace.attribute, or a tuple of targets.
struct Target {
  uint32_t offset = 0;
  Symbol symbol = 0;
  Text attribute;             // empty: the name itself
  std::vector<Target> items;  // not empty: a tuple
  bool tuple = false;
};

struct Data : Statement {
  Text text;
  Flow run(Interpreter& interpreter) const override;
};
struct Print : Statement {
  ExpressionPtr value;
  Flow run(Interpreter& interpreter) const override;
};
struct If : Statement {
  std::vector<std::pair<ExpressionPtr, Body>> branches;
  Body otherwise;
  Flow run(Interpreter& interpreter) const override;
};
struct For : Statement {
  Target target;
  ExpressionPtr iterable, test;  // test: may be null
  bool recursive = false;
  Body body, otherwise;
  Flow run(Interpreter& interpreter) const override;
};
struct Set : Statement {
  Target target;
  ExpressionPtr value;
  Flow run(Interpreter& interpreter) const override;
};
struct SetBlock : Statement {
  Target target;
  Steps filters;
  Body body;
  Flow run(Interpreter& interpreter) const override;
};
struct FilterBlock : Statement {
  Steps filters;
  Body body;
  Flow run(Interpreter& interpreter) const override;
};
struct With : Statement {
  std::vector<std::pair<Target, ExpressionPtr>> bindings;
  Body body;
  Flow run(Interpreter& interpreter) const override;
};
struct ScopedBody : Statement {  // {% block %}, {% generation %}
  bool from_root;                // a block sees the variables of the top level only
  Body body;
  Flow run(Interpreter& interpreter) const override;
};
struct MacroCode {
  std::string name;  // empty: the body of a call block
  struct Parameter {
    Symbol symbol;
    Text name;
    ExpressionPtr fallback;  // null: undefined when not given
  };
  std::vector<Parameter> parameters;
  Body body;
  bool takes_caller = false, takes_varargs = false, takes_kwargs = false;
};
struct MacroDefinition : Statement {
  Symbol symbol;
  MacroCode code;
  Flow run(Interpreter& interpreter) const override;
};
struct CallBlock : Statement {
  MacroCode code;
  ExpressionPtr callee;  // what stands before the call's parentheses
  CallArguments arguments;
  Flow run(Interpreter& interpreter) const override;
};
struct LoopControl : Statement {
  Flow flow;
  Flow run(Interpreter&) const override { return flow; }
};

struct Program {
  std::string source;  // normalized; offsets of nodes point into it
  std::vector<std::string> symbols;
  Body body;
};

// Names that the interpreter itself sets, interned first.
enum WellKnown : Symbol { kLoop, kCaller, kVarargs, kKwargs, kWellKnownCount };

// Throws Failure. `source` is at most 1 MiB.
std::unique_ptr<const Program> parse(std::string_view source);

// "line:column" of an offset, both from 1; columns count code points.
std::string position(std::string_view source, size_t offset);

}  // namespace martlet::jinja
