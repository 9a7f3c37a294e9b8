// What each kind of statement does.

#include "chat/jinja/objects.h"
#include "chat/jinja/represent.h"

namespace martlet::jinja {
namespace {

Text capture_scope(Interpreter& interpreter, const Body& body) {
  return interpreter.capture(
      [&] { interpreter.with_scope(interpreter.scope(), [&] { return interpreter.run_body(body); }); });
}

Value filtered(Interpreter& interpreter, const Steps& filters, Value value) {
  for (const auto& filter : filters) {
    interpreter.set_at(filter->offset);
    value = filter->apply(interpreter, value);
  }
  return value;
}

}  // namespace

Flow Data::run(Interpreter& interpreter) const {
  interpreter.write(text);
  return Flow::next;
}

Flow Print::run(Interpreter& interpreter) const {
  interpreter.write(to_text(interpreter.evaluate(*value)));
  return Flow::next;
}

Flow If::run(Interpreter& interpreter) const {
  for (const auto& [test, body] : branches) {
    if (truth(interpreter.evaluate(*test))) return interpreter.run_body(body);
  }
  return interpreter.run_body(otherwise);
}

Flow For::run(Interpreter& interpreter) const {
  return run_loop(interpreter, *this, interpreter.evaluate(*iterable), 0);
}

Flow Set::run(Interpreter& interpreter) const {
  interpreter.assign(target, interpreter.evaluate(*value));
  return Flow::next;
}

Flow SetBlock::run(Interpreter& interpreter) const {
  interpreter.assign(target, filtered(interpreter, filters, capture_scope(interpreter, body)));
  return Flow::next;
}

Flow FilterBlock::run(Interpreter& interpreter) const {
  interpreter.write(to_text(filtered(interpreter, filters, capture_scope(interpreter, body))));
  return Flow::next;
}

Flow With::run(Interpreter& interpreter) const {
  Items values;
  for (const auto& binding : bindings) values.push_back(interpreter.evaluate(*binding.second));
  return interpreter.with_scope(interpreter.scope(), [&] {
    for (size_t i = 0; i < bindings.size(); ++i) interpreter.assign(bindings[i].first, values[i]);
    return interpreter.run_body(body);
  });
}

Flow ScopedBody::run(Interpreter& interpreter) const {
  return interpreter.with_scope(from_root ? interpreter.root() : interpreter.scope(),
                                [&] { return interpreter.run_body(body); });
}

Flow MacroDefinition::run(Interpreter& interpreter) const {
  interpreter.keep(interpreter.scope());
  interpreter.scope()->set(symbol, make<Macro>(code, interpreter.scope()));
  return Flow::next;
}

Flow CallBlock::run(Interpreter& interpreter) const {
  const Value function = interpreter.evaluate(*callee);
  Arguments values = arguments.evaluate(interpreter);
  interpreter.keep(interpreter.scope());
  values.named.emplace_back(Text("caller", true), make<Macro>(code, interpreter.scope()));
  interpreter.set_at(offset);
  interpreter.write(to_text(interpreter.call(function, values)));
  return Flow::next;
}

}  // namespace martlet::jinja
