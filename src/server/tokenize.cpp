#include "server/tokenize.h"

#include "base/utf8.h"
#include "server/field.h"

namespace martlet::server {

namespace json = boost::json;

namespace {

using Asked = TokenizeRequest;

constexpr unsigned kTokenize = 1, kDetokenize = 2;

Status read_content(json::value& value, const std::string& name, Asked& out) {
  if (out.content) return bad_field("invalid_value", "content and prompt are the same: give one of them", name);
  MARTLET_ASSIGN(out.content, read_string(value, name));
  return {};
}

const std::vector<Field<Asked>>& fields() {
  static const std::vector<Field<Asked>> table = {
      {"model", kTokenize | kDetokenize, string(&Asked::model)},
      {"content", kTokenize, read_content},
      {"prompt", kTokenize, read_content},
      {"add_special_tokens", kTokenize, boolean(&Asked::add_special_tokens)},
      {"tokens", kDetokenize, raw(&Asked::tokens)},
  };
  return table;
}

Result<Asked> parse(json::object body, unsigned route) {
  Asked asked;
  MARTLET_TRY(read_fields(body, fields(), route, asked));
  return asked;
}

}  // namespace

Result<TokenizeRequest> parse_tokenize(json::object body) {
  MARTLET_ASSIGN(TokenizeRequest asked, parse(std::move(body), kTokenize));
  if (!asked.content) return bad_field("invalid_value", "must be a string", "content");
  return asked;
}

Result<TokenizeRequest> parse_detokenize(json::object body) {
  return parse(std::move(body), kDetokenize);
}

Result<json::object> tokenize(const ServedModel& model, const TokenizeRequest& asked) {
  const Tokenizer& tokenizer = *model.tokenizer;
  std::vector<Token> tokens;
  if (asked.add_special_tokens && tokenizer.adds_bos()) tokens.push_back(tokenizer.bos());
  tokenizer.encode(*asked.content, {}, tokens);
  if (asked.add_special_tokens && tokenizer.adds_eos()) tokens.push_back(tokenizer.eos());
  json::array ids(tokens.begin(), tokens.end());
  return json::object{{"count", ids.size()}, {"max_model_len", model.engine->context()}, {"tokens", std::move(ids)}};
}

Result<json::object> detokenize(const ServedModel& model, const TokenizeRequest& asked) {
  MARTLET_ASSIGN(const std::vector<Token> tokens, read_tokens(asked.tokens, "tokens", model.tokenizer->size()));
  const std::string text = utf8::replace_invalid(model.tokenizer->decode(tokens, true));
  return json::object{{"content", text}, {"prompt", text}};
}

}  // namespace martlet::server
