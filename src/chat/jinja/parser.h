#pragma once

#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "chat/jinja/ast.h"
#include "chat/jinja/lexer.h"

namespace martlet::jinja {

// Recursive descent over the tokens, after Jinja's grammar. Expressions stand in expression_parser.cpp, statements in
// statement_parser.cpp.
class Parser {
 public:
  explicit Parser(Program& program);
  void parse();

 private:
  // Tokens.
  const Lexeme& current() const { return tokens_[at_]; }
  const Lexeme& next() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  Lexeme advance();
  bool is_symbol(std::string_view text) const;
  bool is_name(std::string_view text) const;
  bool is_any_name(std::initializer_list<std::string_view> names) const;
  bool skip_symbol(std::string_view text);
  bool skip_name(std::string_view text);
  void expect_symbol(std::string_view text);
  void expect_name(std::string_view text);
  Lexeme expect_identifier();
  void expect(TokenType type, const char* what);
  [[noreturn]] void fail_here(std::string text) const;

  template <class T>
  std::unique_ptr<T> node(uint32_t offset);
  Symbol intern(std::string_view name);

  // Expressions.
  ExpressionPtr parse_expression(bool with_conditional = true);
  ExpressionPtr parse_tuple(bool with_conditional = true, bool parenthesized = false, std::string_view end_name = {});
  ExpressionPtr parse_conditional();
  ExpressionPtr parse_binary(int level);
  ExpressionPtr parse_operators(int level, ExpressionPtr left);
  ExpressionPtr parse_comparison(ExpressionPtr left);
  ExpressionPtr parse_unary(bool with_filters = true);
  ExpressionPtr parse_primary();
  ExpressionPtr parse_string();
  ExpressionPtr parse_number();
  ExpressionPtr parse_list();
  ExpressionPtr parse_dict();
  ExpressionPtr parse_name();
  ExpressionPtr with_steps(ExpressionPtr base, Steps steps) const;
  void parse_postfix(Steps& steps);
  void parse_filters_and_tests(Steps& steps);
  void parse_attribute(Steps& steps);
  void parse_subscript(Steps& steps);
  void parse_call(Steps& steps);
  void parse_filter(Steps& steps);
  void parse_test(Steps& steps);
  std::string parse_dotted_name();
  CallArguments parse_arguments();
  void parse_argument(CallArguments& arguments);

  // Statements.
  using Ends = std::initializer_list<std::string_view>;
  Body parse_body(Ends ends);
  Body parse_block_body(Ends ends);  // after a tag's own words: up to one of `ends`, which is left current
  Body parse_scope_body(Ends ends);  // the same, for bodies with variables of their own
  void end_block(std::string_view name);
  std::unique_ptr<const Statement> parse_statement();
  std::unique_ptr<const Statement> parse_print();
  std::unique_ptr<const Statement> parse_if();
  std::unique_ptr<const Statement> parse_for();
  std::unique_ptr<const Statement> parse_set();
  std::unique_ptr<const Statement> parse_macro();
  std::unique_ptr<const Statement> parse_call_block();
  std::unique_ptr<const Statement> parse_filter_block();
  std::unique_ptr<const Statement> parse_with();
  std::unique_ptr<const Statement> parse_block();
  std::unique_ptr<const Statement> parse_generation();
  std::unique_ptr<const Statement> parse_loop_control();
  std::unique_ptr<const Statement> parse_refused();
  Target parse_target(bool with_namespace, std::string_view end_name = {});
  Target parse_single_target(bool with_namespace);
  void parse_signature(MacroCode& code);
  void parse_macro_body(MacroCode& code, std::string_view end);

  class Depth;
  struct StatementRow;
  static const StatementRow kStatements[];

  Program& program_;
  const std::byte* const stack_base_ = stack_position();
  std::vector<Lexeme> tokens_;
  size_t at_ = 0;
  std::map<std::string, Symbol, std::less<>> symbols_;
  std::vector<MacroCode*> macros_;  // around the current place
  size_t nodes_ = 0;
  int depth_ = 0;
  int loops_ = 0;                  // within the current macro
  bool soft_ = false;              // inside a branch that may never run: unknown filters are errors only when it does
  std::vector<uint32_t> unknown_;  // offsets of unknown filters and tests outside of such branches
  std::set<std::string, std::less<>> blocks_;
};

// Bounds nesting, so that neither parsing, rendering nor freeing a tree can exhaust a thread's stack.
class Parser::Depth {
 public:
  explicit Depth(Parser& parser) : parser_(parser) {
    const bool deep = parser_.stack_base_ - stack_position() > kStackBytes;
    if (++parser_.depth_ > kMaxDepth || deep) {
      --parser_.depth_;
      parser_.fail_here("the template is nested too deeply");
    }
  }
  ~Depth() { --parser_.depth_; }

 private:
  static constexpr int kMaxDepth = 64;
  Parser& parser_;
};

template <class T>
std::unique_ptr<T> Parser::node(uint32_t offset) {
  constexpr size_t kMaxNodes = 250'000;
  if (++nodes_ > kMaxNodes) fail_here("the template is too large");
  auto made = std::make_unique<T>();
  made->offset = offset;
  return made;
}

}  // namespace martlet::jinja
