// How each kind of expression is evaluated.

#include "chat/jinja/interpreter.h"
#include "chat/jinja/operators.h"
#include "chat/jinja/python_string.h"
#include "chat/jinja/represent.h"

namespace martlet::jinja {
namespace {

Value apply_steps(Interpreter& interpreter, Value value, const Steps& steps) {
  for (const auto& step : steps) {
    interpreter.budget().work(1);
    interpreter.set_at(step->offset);
    value = step->apply(interpreter, value);
  }
  return value;
}

// An undefined result that knows what was missing, for the message of the error that it may become.
Value named(Value value, const Text& name) {
  if (value.undefined() && !value.undefined()->forbidden) return Undefined{name.view()};
  return value;
}

std::optional<Integer> slice_position(Interpreter& interpreter, const ExpressionPtr& expression, bool& good) {
  if (!expression) return std::nullopt;
  const Value value = interpreter.evaluate(*expression);
  if (value.none()) return std::nullopt;
  good = good && value.integral();
  return value.integral();
}

}  // namespace

Value Constant::evaluate(Interpreter&) const {
  return value;
}

Value Name::evaluate(Interpreter& interpreter) const {
  return interpreter.lookup(symbol);
}

Value SequenceLiteral::evaluate(Interpreter& interpreter) const {
  Items values;
  values.reserve(items.size());
  for (const auto& item : items) values.push_back(interpreter.evaluate(*item));
  return make_sequence(kind, std::move(values));
}

Value DictLiteral::evaluate(Interpreter& interpreter) const {
  Dict dict;
  for (const auto& [key, value] : entries) {
    const Value evaluated = interpreter.evaluate(*key);
    dict.set(evaluated, interpreter.evaluate(*value));
  }
  return make_dict(std::move(dict));
}

Value Logical::evaluate(Interpreter& interpreter) const {
  Value value;
  for (const auto& operand : operands) {
    value = interpreter.evaluate(*operand);
    if (truth(value) != conjunction) break;
  }
  return value;
}

Value Negation::evaluate(Interpreter& interpreter) const {
  return !truth(interpreter.evaluate(*operand));
}

Value Comparison::evaluate(Interpreter& interpreter) const {
  Value left = interpreter.evaluate(*first);
  for (const auto& [function, operand] : rest) {
    Value right = interpreter.evaluate(*operand);
    interpreter.set_at(offset);
    if (!function(left, right)) return false;
    left = std::move(right);
  }
  return true;
}

Value Arithmetic::evaluate(Interpreter& interpreter) const {
  Value left = interpreter.evaluate(*first);
  for (const auto& [function, operand] : rest) {
    const Value right = interpreter.evaluate(*operand);
    interpreter.set_at(offset);
    left = function(left, right);
  }
  return left;
}

Value Concatenation::evaluate(Interpreter& interpreter) const {
  Pieces pieces;
  for (const auto& operand : operands) pieces.append(to_text(interpreter.evaluate(*operand)));
  return pieces.join();
}

Value Sign::evaluate(Interpreter& interpreter) const {
  const Value value = interpreter.evaluate(*operand);
  interpreter.set_at(offset);
  return negative ? negate(value) : plus(value);
}

Value Conditional::evaluate(Interpreter& interpreter) const {
  if (truth(interpreter.evaluate(*test))) return interpreter.evaluate(*then);
  return otherwise ? interpreter.evaluate(*otherwise) : Value();
}

Value Postfix::evaluate(Interpreter& interpreter) const {
  return apply_steps(interpreter, interpreter.evaluate(*base), steps);
}

Value AttributeStep::apply(Interpreter& interpreter, const Value& subject) const {
  return named(interpreter.attribute(subject, name), name);
}

Value ItemStep::apply(Interpreter& interpreter, const Value& subject) const {
  const Value index = interpreter.evaluate(*key);
  interpreter.set_at(offset);
  Value value = interpreter.item(subject, index);
  const auto* constant = dynamic_cast<const Constant*>(key.get());
  return constant && constant->value.text() ? named(std::move(value), *constant->value.text()) : value;
}

Value SliceStep::apply(Interpreter& interpreter, const Value& subject) const {
  bool good = true;
  const auto from = slice_position(interpreter, start, good);
  const auto to = slice_position(interpreter, stop, good);
  const auto by = slice_position(interpreter, step, good);
  interpreter.set_at(offset);
  if (subject.undefined()) fail_undefined(*subject.undefined());
  const Sequence* sequence = subject.sequence();
  const bool sliceable = subject.text() || (sequence && (sequence->kind == Sequence::Kind::list ||
                                                         sequence->kind == Sequence::Kind::tuple ||
                                                         sequence->kind == Sequence::Kind::range));
  if (!sliceable) fail("a value of type '" + std::string(type_name(subject)) + "' cannot be sliced");
  if (!good) fail("slice positions must be integers");
  const SliceRange range = slice_range(*length_of(subject), from, to, by);
  if (const Text* text = subject.text()) return slice(*text, range);
  Items items;
  items.reserve(range.count);
  for (size_t i = 0; i < range.count; ++i) {
    items.push_back(sequence->items[static_cast<size_t>(range.start + static_cast<Integer>(i) * range.step)]);
  }
  const bool tuple = sequence->kind == Sequence::Kind::tuple;
  return tuple ? make_tuple(std::move(items)) : make_list(std::move(items));
}

Value CallStep::apply(Interpreter& interpreter, const Value& subject) const {
  Arguments values = arguments.evaluate(interpreter);
  interpreter.set_at(offset);
  return interpreter.call(subject, values);
}

Value MethodStep::apply(Interpreter& interpreter, const Value& subject) const {
  // A method of the value's own type needs no bound object.
  if (const Builtin* method = find_method(subject, name.view())) {
    const Arguments values = arguments.evaluate(interpreter);
    interpreter.set_at(offset);
    return run_builtin(*method, interpreter, subject, values);
  }
  const Value callee = named(interpreter.attribute(subject, name), name);
  Arguments values = arguments.evaluate(interpreter);
  interpreter.set_at(offset);
  return interpreter.call(callee, values);
}

Value FilterStep::apply(Interpreter& interpreter, const Value& subject) const {
  if (!filter) fail("unknown filter");
  const Arguments values = arguments.evaluate(interpreter);
  interpreter.set_at(offset);
  return run_builtin(*filter, interpreter, subject, values);
}

Value TestStep::apply(Interpreter& interpreter, const Value& subject) const {
  if (!test) fail("unknown test");
  const Arguments values = arguments.evaluate(interpreter);
  interpreter.set_at(offset);
  const Value result = run_builtin(*test, interpreter, subject, values);
  return negated ? Value(!truth(result)) : result;
}

Arguments CallArguments::evaluate(Interpreter& interpreter) const {
  Arguments out;
  for (const auto& expression : positional) out.positional.push_back(interpreter.evaluate(*expression));
  for (const auto& [name, expression] : named) out.named.emplace_back(name, interpreter.evaluate(*expression));
  if (star) {
    for (Value& item : items_of(interpreter.evaluate(*star))) out.positional.push_back(std::move(item));
  }
  if (!double_star) return out;
  const Value rest = interpreter.evaluate(*double_star);
  for (const auto& [name, value] : need_dict(rest).entries()) {
    const Text& text = need_text(name);
    for (const auto& given : out.named) {
      if (given.first.view() == text.view()) fail("a keyword argument is given twice");
    }
    out.named.emplace_back(text, value);
  }
  return out;
}

}  // namespace martlet::jinja
