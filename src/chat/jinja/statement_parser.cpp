#include "base/utf8.h"
#include "chat/jinja/parser.h"

namespace martlet::jinja {

struct Parser::StatementRow {
  std::string_view name;
  std::unique_ptr<const Statement> (Parser::*parse)();
};

const Parser::StatementRow Parser::kStatements[] = {
    {"print", &Parser::parse_print},
    {"if", &Parser::parse_if},
    {"for", &Parser::parse_for},
    {"set", &Parser::parse_set},
    {"macro", &Parser::parse_macro},
    {"call", &Parser::parse_call_block},
    {"filter", &Parser::parse_filter_block},
    {"with", &Parser::parse_with},
    {"block", &Parser::parse_block},
    {"generation", &Parser::parse_generation},
    {"break", &Parser::parse_loop_control},
    {"continue", &Parser::parse_loop_control},
    {"include", &Parser::parse_refused},
    {"import", &Parser::parse_refused},
    {"from", &Parser::parse_refused},
    {"extends", &Parser::parse_refused},
    {"autoescape", &Parser::parse_refused},
};

Parser::Parser(Program& program) : program_(program), tokens_(tokenize(program.source)) {
  for (const char* name : {"loop", "caller", "varargs", "kwargs"}) intern(name);
}

void Parser::parse() {
  program_.body = parse_body({});
  if (current().type != TokenType::end) fail_here("unexpected end tag");
  if (!unknown_.empty()) fail_at(unknown_.front(), "unknown filter or test");
}

Lexeme Parser::advance() {
  const Lexeme token = current();
  if (at_ + 1 < tokens_.size()) ++at_;
  return token;
}

bool Parser::is_symbol(std::string_view text) const {
  return current().type == TokenType::symbol && current().text == text;
}
bool Parser::is_name(std::string_view text) const {
  return current().type == TokenType::name && current().text == text;
}
bool Parser::is_any_name(std::initializer_list<std::string_view> names) const {
  return std::any_of(names.begin(), names.end(), [this](std::string_view name) { return is_name(name); });
}
bool Parser::skip_symbol(std::string_view text) {
  return is_symbol(text) && (advance(), true);
}
bool Parser::skip_name(std::string_view text) {
  return is_name(text) && (advance(), true);
}

void Parser::expect_symbol(std::string_view text) {
  if (!skip_symbol(text)) fail_here("'" + std::string(text) + "' is expected");
}
void Parser::expect_name(std::string_view text) {
  if (!skip_name(text)) fail_here("'" + std::string(text) + "' is expected");
}
Lexeme Parser::expect_identifier() {
  if (current().type != TokenType::name) fail_here("a name is expected");
  return advance();
}
void Parser::expect(TokenType type, const char* what) {
  if (current().type != type) fail_here(std::string(what) + " is expected");
  advance();
}

void Parser::fail_here(std::string text) const {
  fail_at(current().offset, std::move(text));
}

Symbol Parser::intern(std::string_view name) {
  const auto found = symbols_.find(name);
  if (found != symbols_.end()) return found->second;
  const Symbol symbol = static_cast<Symbol>(program_.symbols.size());
  program_.symbols.emplace_back(name);
  symbols_.emplace(std::string(name), symbol);
  return symbol;
}

// Statements up to a tag that begins with one of `ends`; its name is then current. Without ends: up to the end.
Body Parser::parse_body(Ends ends) {
  const Depth depth(*this);
  Body body;
  while (current().type != TokenType::end) {
    if (current().type == TokenType::data) {
      auto data = node<Data>(current().offset);
      data->text = Text(advance().text, true);
      body.push_back(std::move(data));
    } else if (current().type == TokenType::variable_begin) {
      auto print = node<Print>(advance().offset);
      print->value = parse_tuple();
      expect(TokenType::variable_end, "'}}'");
      body.push_back(std::move(print));
    } else {
      expect(TokenType::block_begin, "a tag");
      if (is_any_name(ends)) return body;
      body.push_back(parse_statement());
      expect(TokenType::block_end, "'%}'");
    }
  }
  if (ends.size() > 0) fail_here("unexpected end of the template: '" + std::string(*ends.begin()) + "' is missing");
  return body;
}

Body Parser::parse_block_body(Ends ends) {
  skip_symbol(":");
  expect(TokenType::block_end, "'%}'");
  return parse_body(ends);
}

Body Parser::parse_scope_body(Ends ends) {
  const bool soft = std::exchange(soft_, false);
  Body body = parse_block_body(ends);
  soft_ = soft;
  return body;
}

std::unique_ptr<const Statement> Parser::parse_statement() {
  if (current().type != TokenType::name) fail_here("the name of a tag is expected");
  for (const StatementRow& row : kStatements) {
    if (is_name(row.name)) return (this->*row.parse)();
  }
  fail_here("unknown tag");
}

std::unique_ptr<const Statement> Parser::parse_print() {
  auto print = node<Print>(advance().offset);
  auto all = node<Concatenation>(print->offset);
  while (current().type != TokenType::block_end) {
    all->operands.push_back(parse_expression());
    if (!skip_symbol(",")) break;
  }
  print->value = std::move(all);
  return print;
}

std::unique_ptr<const Statement> Parser::parse_if() {
  auto statement = node<If>(current().offset);
  const bool soft = std::exchange(soft_, true);
  while (skip_name("if") || skip_name("elif")) {
    ExpressionPtr test = parse_tuple(false);
    statement->branches.emplace_back(std::move(test), parse_block_body({"elif", "else", "endif"}));
  }
  if (skip_name("else")) statement->otherwise = parse_block_body({"endif"});
  soft_ = soft;
  expect_name("endif");
  return statement;
}

std::unique_ptr<const Statement> Parser::parse_for() {
  auto statement = node<For>(advance().offset);
  statement->target = parse_target(false, "in");
  expect_name("in");
  statement->iterable = parse_tuple(false, false, "recursive");
  if (skip_name("if")) statement->test = parse_expression();
  statement->recursive = skip_name("recursive");
  ++loops_;
  if (statement->target.symbol == kLoop && !statement->target.tuple) fail_here("'loop' cannot be assigned in a loop");
  statement->body = parse_scope_body({"endfor", "else"});
  --loops_;
  if (skip_name("else")) statement->otherwise = parse_scope_body({"endfor"});
  expect_name("endfor");
  return statement;
}

std::unique_ptr<const Statement> Parser::parse_set() {
  const uint32_t offset = advance().offset;
  Target target = parse_target(true);
  if (loops_ > 0 && target.symbol == kLoop && !target.tuple && target.attribute.empty()) {
    fail_here("'loop' cannot be assigned in a loop");
  }
  if (skip_symbol("=")) {
    auto set = node<Set>(offset);
    set->target = std::move(target);
    set->value = parse_tuple();
    return set;
  }
  auto block = node<SetBlock>(offset);
  block->target = std::move(target);
  while (skip_symbol("|")) parse_filter(block->filters);
  block->body = parse_scope_body({"endset"});
  expect_name("endset");
  return block;
}

Target Parser::parse_target(bool with_namespace, std::string_view end_name) {
  Target target;
  target.offset = current().offset;
  while (true) {
    if (target.tuple && (current().type == TokenType::block_end || is_symbol("=") || is_symbol(")") ||
                         (!end_name.empty() && is_name(end_name)))) {
      return target;
    }
    Target item = parse_single_target(with_namespace);
    const bool comma = skip_symbol(",");
    if (!comma && !target.tuple) return item;
    target.tuple = true;
    target.items.push_back(std::move(item));
    if (!comma) return target;
  }
}

Target Parser::parse_single_target(bool with_namespace) {
  const Depth depth(*this);
  if (skip_symbol("(")) {
    Target inner = parse_target(with_namespace);
    expect_symbol(")");
    return inner;
  }
  Target target;
  target.offset = current().offset;
  if (is_any_name({"true", "false", "none", "True", "False", "None"})) fail_here("a constant cannot be assigned");
  target.symbol = intern(expect_identifier().text);
  if (with_namespace && skip_symbol(".")) target.attribute = Text(expect_identifier().text, true);
  return target;
}

void Parser::parse_signature(MacroCode& code) {
  expect_symbol("(");
  while (!is_symbol(")")) {
    MacroCode::Parameter parameter;
    const std::string_view name = expect_identifier().text;
    parameter.symbol = intern(name);
    parameter.name = Text(name, true);
    if (skip_symbol("=")) {
      parameter.fallback = parse_expression();
    } else if (!code.parameters.empty() && code.parameters.back().fallback) {
      fail_here("a parameter without a default follows one with a default");
    }
    code.parameters.push_back(std::move(parameter));
    if (!skip_symbol(",")) break;
  }
  expect_symbol(")");
}

void Parser::parse_macro_body(MacroCode& code, std::string_view end) {
  const int loops = std::exchange(loops_, 0);
  macros_.push_back(&code);
  code.body = parse_scope_body({end});
  macros_.pop_back();
  loops_ = loops;
  expect_name(end);
}

std::unique_ptr<const Statement> Parser::parse_macro() {
  auto macro = node<MacroDefinition>(advance().offset);
  macro->code.name = std::string(expect_identifier().text);
  macro->symbol = intern(macro->code.name);
  parse_signature(macro->code);
  parse_macro_body(macro->code, "endmacro");
  return macro;
}

std::unique_ptr<const Statement> Parser::parse_call_block() {
  auto block = node<CallBlock>(advance().offset);
  if (is_symbol("(")) parse_signature(block->code);
  const uint32_t offset = current().offset;
  ExpressionPtr value = parse_primary();
  Steps steps;
  parse_postfix(steps);
  if (steps.empty()) fail_at(offset, "a call is expected");
  // The last step must be the call; what stands before it is the callee.
  const std::unique_ptr<const Step> last = std::move(steps.back());
  steps.pop_back();
  if (auto* method = dynamic_cast<const MethodStep*>(last.get())) {
    auto attribute = node<AttributeStep>(method->offset);
    attribute->name = method->name;
    steps.push_back(std::move(attribute));
    block->arguments = std::move(const_cast<MethodStep*>(method)->arguments);
  } else if (auto* call = dynamic_cast<const CallStep*>(last.get())) {
    block->arguments = std::move(const_cast<CallStep*>(call)->arguments);
  } else {
    fail_at(offset, "a call is expected");
  }
  block->callee = with_steps(std::move(value), std::move(steps));
  parse_macro_body(block->code, "endcall");
  return block;
}

std::unique_ptr<const Statement> Parser::parse_filter_block() {
  auto block = node<FilterBlock>(advance().offset);
  parse_filter(block->filters);
  while (skip_symbol("|")) parse_filter(block->filters);
  block->body = parse_scope_body({"endfilter"});
  expect_name("endfilter");
  return block;
}

std::unique_ptr<const Statement> Parser::parse_with() {
  auto with = node<With>(advance().offset);
  while (current().type != TokenType::block_end) {
    Target target = parse_target(false);
    expect_symbol("=");
    with->bindings.emplace_back(std::move(target), parse_expression());
    if (!skip_symbol(",")) break;
  }
  with->body = parse_scope_body({"endwith"});
  expect_name("endwith");
  return with;
}

std::unique_ptr<const Statement> Parser::parse_block() {
  auto block = node<ScopedBody>(advance().offset);
  block->from_root = true;
  const std::string name(expect_identifier().text);
  if (!blocks_.insert(name).second) fail_here("a block of this name exists already");
  block->from_root = !skip_name("scoped");
  block->body = parse_scope_body({"endblock"});
  expect_name("endblock");
  skip_name(name);
  return block;
}

// {% generation %} marks what the assistant wrote, for training; it renders as its body.
std::unique_ptr<const Statement> Parser::parse_generation() {
  auto block = node<ScopedBody>(advance().offset);
  block->from_root = false;
  const int loops = std::exchange(loops_, 0);
  block->body = parse_scope_body({"endgeneration"});
  loops_ = loops;
  expect_name("endgeneration");
  return block;
}

std::unique_ptr<const Statement> Parser::parse_loop_control() {
  auto control = node<LoopControl>(current().offset);
  if (loops_ == 0) fail_here("'break' and 'continue' stand in loops only");
  control->flow = advance().text == "break" ? Flow::break_loop : Flow::continue_loop;
  return control;
}

std::unique_ptr<const Statement> Parser::parse_refused() {
  fail_here("the tag '" + std::string(current().text) + "' is not supported: a chat template stands alone");
}

std::unique_ptr<const Program> parse(std::string_view source) {
  auto program = std::make_unique<Program>();
  program->source = normalize_newlines(source);
  Parser(*program).parse();
  return program;
}

std::string position(std::string_view source, size_t offset) {
  const std::string_view before = source.substr(0, std::min(offset, source.size()));
  const size_t line_start = before.rfind('\n') == before.npos ? 0 : before.rfind('\n') + 1;
  size_t column = 1;
  for (size_t at = line_start; at < before.size(); at += utf8::decode(before, at).length) ++column;
  return std::to_string(1 + std::count(before.begin(), before.end(), '\n')) + ":" + std::to_string(column);
}

}  // namespace martlet::jinja
