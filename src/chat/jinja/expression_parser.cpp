#include <charconv>

#include "chat/jinja/operators.h"
#include "chat/jinja/parser.h"

namespace martlet::jinja {
namespace {

// Levels of binding, loosest first. `not` stands between kAnd and kCompare.
enum Level { kOr, kAnd, kNot, kCompare, kAdd, kConcat, kMultiply, kPower, kUnary };

template <class Function>
struct Operator {
  std::string_view symbol;
  int level;
  Function function;
};
constexpr Operator<ArithmeticFunction> kArithmetic[] = {
    {"+", kAdd, add},         {"-", kAdd, subtract},           {"*", kMultiply, multiply},
    {"/", kMultiply, divide}, {"//", kMultiply, floor_divide}, {"%", kMultiply, modulo},
    {"**", kPower, power}};
constexpr Operator<CompareFunction> kComparisons[] = {{"==", kCompare, equal},  {"!=", kCompare, not_equal},
                                                      {"<", kCompare, less},    {"<=", kCompare, less_equal},
                                                      {">", kCompare, greater}, {">=", kCompare, greater_equal}};

template <class Function, size_t N>
const Operator<Function>* find_operator(const Operator<Function> (&table)[N], std::string_view symbol, int level) {
  for (const auto& row : table) {
    if (row.symbol == symbol && row.level == level) return &row;
  }
  return nullptr;
}

}  // namespace

ExpressionPtr Parser::parse_expression(bool with_conditional) {
  const Depth depth(*this);
  return with_conditional ? parse_conditional() : parse_binary(kOr);
}

ExpressionPtr Parser::parse_tuple(bool with_conditional, bool parenthesized, std::string_view end_name) {
  const uint32_t offset = current().offset;
  const auto at_end = [&] {
    return current().type == TokenType::variable_end || current().type == TokenType::block_end || is_symbol(")") ||
           (!end_name.empty() && is_name(end_name));
  };
  Expressions items;
  bool tuple = false;
  while (!at_end()) {
    items.push_back(parse_expression(with_conditional));
    if (!skip_symbol(",")) break;
    tuple = true;
  }
  if (!tuple && !items.empty()) return std::move(items.front());
  if (!tuple && !parenthesized) fail_here("an expression is expected");
  auto result = node<SequenceLiteral>(offset);
  result->kind = Sequence::Kind::tuple;
  result->items = std::move(items);
  return result;
}

ExpressionPtr Parser::parse_conditional() {
  const size_t unknown = unknown_.size();
  ExpressionPtr value = parse_binary(kOr);
  while (is_name("if")) {
    unknown_.resize(unknown);  // the value may never be evaluated
    auto conditional = node<Conditional>(advance().offset);
    const bool soft = std::exchange(soft_, true);
    conditional->then = std::move(value);
    conditional->test = parse_binary(kOr);
    if (skip_name("else")) conditional->otherwise = parse_expression();
    soft_ = soft;
    value = std::move(conditional);
  }
  return value;
}

// Everything that binds at least as tightly as `level`.
ExpressionPtr Parser::parse_binary(int level) {
  if (level <= kNot && is_name("not")) {
    const Depth depth(*this);
    auto negation = node<Negation>(advance().offset);
    negation->operand = parse_binary(kNot);
    ExpressionPtr left = std::move(negation);
    for (int l = kAnd; l >= level; --l) left = parse_operators(l, std::move(left));
    return left;
  }
  ExpressionPtr left = parse_unary();
  for (int l = kPower; l >= level; --l) {
    if (l != kNot) left = parse_operators(l, std::move(left));
  }
  return left;
}

// The operators of one level that follow `left`, as one flat node.
ExpressionPtr Parser::parse_operators(int level, ExpressionPtr left) {
  const uint32_t offset = current().offset;
  if (level == kCompare) return parse_comparison(std::move(left));
  if (level == kOr || level == kAnd) {
    const std::string_view word = level == kOr ? "or" : "and";
    if (!is_name(word)) return left;
    auto chain = node<Logical>(offset);
    chain->conjunction = level == kAnd;
    chain->operands.push_back(std::move(left));
    while (skip_name(word)) chain->operands.push_back(parse_binary(level + 1));
    return chain;
  }
  if (level == kConcat) {
    if (!is_symbol("~")) return left;
    auto chain = node<Concatenation>(offset);
    chain->operands.push_back(std::move(left));
    while (skip_symbol("~")) chain->operands.push_back(parse_binary(level + 1));
    return chain;
  }
  std::unique_ptr<Arithmetic> chain;
  while (current().type == TokenType::symbol) {
    const auto* row = find_operator(kArithmetic, current().text, level);
    if (!row) break;
    if (!chain) {
      chain = node<Arithmetic>(offset);
      chain->first = std::move(left);
    }
    advance();
    chain->rest.emplace_back(row->function, parse_binary(level + 1));
  }
  if (chain) return chain;
  return left;
}

ExpressionPtr Parser::parse_comparison(ExpressionPtr left) {
  std::unique_ptr<Comparison> chain;
  while (true) {
    const uint32_t offset = current().offset;
    CompareFunction function = nullptr;
    if (current().type == TokenType::symbol) {
      if (const auto* row = find_operator(kComparisons, current().text, kCompare)) function = row->function;
    } else if (is_name("in")) {
      function = is_in;
    } else if (is_name("not") && next().type == TokenType::name && next().text == "in") {
      advance();
      function = is_not_in;
    }
    if (!function) break;
    advance();
    if (!chain) {
      chain = node<Comparison>(offset);
      chain->first = std::move(left);
    }
    chain->rest.emplace_back(function, parse_binary(kAdd));
  }
  if (chain) return chain;
  return left;
}

ExpressionPtr Parser::parse_unary(bool with_filters) {
  ExpressionPtr value;
  if (is_symbol("-") || is_symbol("+")) {
    const Depth depth(*this);
    auto sign = node<Sign>(current().offset);
    sign->negative = advance().text == "-";
    sign->operand = parse_unary(false);
    value = std::move(sign);
  } else {
    value = parse_primary();
  }
  Steps steps;
  parse_postfix(steps);
  if (with_filters) parse_filters_and_tests(steps);
  return with_steps(std::move(value), std::move(steps));
}

ExpressionPtr Parser::with_steps(ExpressionPtr base, Steps steps) const {
  if (steps.empty()) return base;
  auto postfix = std::make_unique<Postfix>();
  postfix->offset = base->offset;
  postfix->base = std::move(base);
  postfix->steps = std::move(steps);
  return postfix;
}

ExpressionPtr Parser::parse_primary() {
  switch (current().type) {
    case TokenType::name:
      return parse_name();
    case TokenType::string:
      return parse_string();
    case TokenType::integer:
    case TokenType::floating:
      return parse_number();
    default:
      break;
  }
  if (is_symbol("[")) return parse_list();
  if (is_symbol("{")) return parse_dict();
  if (!skip_symbol("(")) fail_here("an expression is expected");
  ExpressionPtr inner = parse_tuple(true, true);
  expect_symbol(")");
  return inner;
}

ExpressionPtr Parser::parse_name() {
  const Lexeme token = advance();
  static const struct {
    std::string_view name;
    Value value;
  } kConstants[] = {{"true", true},   {"True", true},   {"false", false},
                    {"False", false}, {"none", None{}}, {"None", None{}}};
  for (const auto& constant : kConstants) {
    if (constant.name != token.text) continue;
    auto result = node<Constant>(token.offset);
    result->value = constant.value;
    return result;
  }
  for (MacroCode* macro : macros_) {
    macro->takes_caller |= token.text == "caller";
    macro->takes_varargs |= token.text == "varargs";
    macro->takes_kwargs |= token.text == "kwargs";
  }
  auto result = node<Name>(token.offset);
  result->symbol = intern(token.text);
  return result;
}

ExpressionPtr Parser::parse_string() {
  auto result = node<Constant>(current().offset);
  std::string text;
  while (current().type == TokenType::string) {
    const Lexeme token = advance();
    text += unescape(token.text, token.offset);
  }
  result->value = Text(text, true);
  return result;
}

ExpressionPtr Parser::parse_number() {
  const Lexeme token = advance();
  std::string digits;
  for (const char c : token.text) {
    if (c != '_') digits += c;
  }
  auto result = node<Constant>(token.offset);
  if (token.type == TokenType::floating) {
    double number = 0;
    const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (read.ec != std::errc()) fail_at(token.offset, "a number is out of range");
    result->value = number;
    return result;
  }
  int base = 10;
  if (digits.size() > 1 && digits[0] == '0') {
    const char letter = static_cast<char>(digits[1] | 0x20);
    base = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 10;
  }
  const char* begin = digits.data() + (base == 10 ? 0 : 2);
  Integer integer = 0;
  const auto read = std::from_chars(begin, digits.data() + digits.size(), integer, base);
  if (read.ec != std::errc()) fail_at(token.offset, "an integer does not fit in 64 bits");
  result->value = integer;
  return result;
}

ExpressionPtr Parser::parse_list() {
  auto list = node<SequenceLiteral>(advance().offset);
  list->kind = Sequence::Kind::list;
  while (!is_symbol("]")) {
    list->items.push_back(parse_expression());
    if (!skip_symbol(",")) break;
  }
  expect_symbol("]");
  return list;
}

ExpressionPtr Parser::parse_dict() {
  auto dict = node<DictLiteral>(advance().offset);
  while (!is_symbol("}")) {
    ExpressionPtr key = parse_expression();
    expect_symbol(":");
    dict->entries.emplace_back(std::move(key), parse_expression());
    if (!skip_symbol(",")) break;
  }
  expect_symbol("}");
  return dict;
}

void Parser::parse_postfix(Steps& steps) {
  while (true) {
    if (is_symbol(".")) {
      parse_attribute(steps);
    } else if (is_symbol("[")) {
      parse_subscript(steps);
    } else if (is_symbol("(")) {
      parse_call(steps);
    } else {
      return;
    }
  }
}

void Parser::parse_filters_and_tests(Steps& steps) {
  while (true) {
    if (is_symbol("|")) {
      advance();
      parse_filter(steps);
    } else if (is_name("is")) {
      advance();
      parse_test(steps);
    } else if (is_symbol("(")) {
      parse_call(steps);
    } else {
      return;
    }
  }
}

void Parser::parse_attribute(Steps& steps) {
  advance();
  const Lexeme token = current();
  if (token.type == TokenType::integer) {
    auto item = node<ItemStep>(token.offset);
    item->key = parse_number();
    steps.push_back(std::move(item));
    return;
  }
  advance();
  if (token.type != TokenType::name) fail_at(token.offset, "a name or number is expected after '.'");
  if (is_symbol("(")) {
    auto method = node<MethodStep>(token.offset);
    method->name = Text(token.text, true);
    method->arguments = parse_arguments();
    steps.push_back(std::move(method));
    return;
  }
  auto attribute = node<AttributeStep>(token.offset);
  attribute->name = Text(token.text, true);
  steps.push_back(std::move(attribute));
}

void Parser::parse_subscript(Steps& steps) {
  const uint32_t offset = advance().offset;
  const auto at_end = [this] { return is_symbol(":") || is_symbol("]"); };
  ExpressionPtr first;
  if (!is_symbol(":")) first = parse_expression();
  if (first && is_symbol(",")) fail_here("subscripts of more than one value are not supported");
  if (!is_symbol(":")) {
    auto item = node<ItemStep>(offset);
    item->key = std::move(first);
    steps.push_back(std::move(item));
  } else {
    advance();
    auto slice = node<SliceStep>(offset);
    slice->start = std::move(first);
    if (!at_end()) slice->stop = parse_expression();
    if (skip_symbol(":") && !at_end()) slice->step = parse_expression();
    steps.push_back(std::move(slice));
  }
  expect_symbol("]");
}

void Parser::parse_call(Steps& steps) {
  auto call = node<CallStep>(current().offset);
  call->arguments = parse_arguments();
  steps.push_back(std::move(call));
}

std::string Parser::parse_dotted_name() {
  std::string name(expect_identifier().text);
  while (skip_symbol(".")) name += "." + std::string(expect_identifier().text);
  return name;
}

void Parser::parse_filter(Steps& steps) {
  auto step = node<FilterStep>(current().offset);
  step->filter = find_filter(parse_dotted_name());
  if (!step->filter && !soft_) unknown_.push_back(step->offset);
  if (is_symbol("(")) step->arguments = parse_arguments();
  steps.push_back(std::move(step));
}

void Parser::parse_test(Steps& steps) {
  const bool negated = skip_name("not");
  auto step = node<TestStep>(current().offset);
  step->negated = negated;
  step->test = find_test(parse_dotted_name());
  if (!step->test && !soft_) unknown_.push_back(step->offset);
  const bool argument = current().type == TokenType::name || current().type == TokenType::string ||
                        current().type == TokenType::integer || current().type == TokenType::floating ||
                        is_symbol("[") || is_symbol("{");
  if (is_symbol("(")) {
    step->arguments = parse_arguments();
  } else if (argument && !is_any_name({"else", "or", "and"})) {
    if (is_name("is")) fail_here("tests cannot be chained with 'is'");
    const Depth depth(*this);
    ExpressionPtr value = parse_primary();
    Steps inner;
    parse_postfix(inner);
    step->arguments.positional.push_back(with_steps(std::move(value), std::move(inner)));
  }
  steps.push_back(std::move(step));
}

CallArguments Parser::parse_arguments() {
  expect_symbol("(");
  CallArguments arguments;
  while (!is_symbol(")")) {
    parse_argument(arguments);
    if (!skip_symbol(",")) break;
  }
  expect_symbol(")");
  return arguments;
}

void Parser::parse_argument(CallArguments& arguments) {
  const auto need = [this](bool allowed) {
    if (!allowed) fail_here("invalid order of arguments");
  };
  if (skip_symbol("**")) {
    need(!arguments.double_star);
    arguments.double_star = parse_expression();
  } else if (skip_symbol("*")) {
    need(!arguments.star && !arguments.double_star);
    arguments.star = parse_expression();
  } else if (current().type == TokenType::name && next().type == TokenType::symbol && next().text == "=") {
    need(!arguments.double_star);
    const Text name(advance().text, true);
    advance();
    arguments.named.emplace_back(name, parse_expression());
  } else {
    need(!arguments.star && !arguments.double_star && arguments.named.empty());
    arguments.positional.push_back(parse_expression());
  }
}

}  // namespace martlet::jinja
