// From the metadata of a model file to a checked VocabularySource.

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string>

#include "text/pre_tokenizers.h"
#include "text/vocabulary.h"
#include "text/vocabulary_tokenizer.h"

namespace martlet {
namespace {

#define KEY(name) "tokenizer.ggml." name

constexpr std::string_view kEndTokens[] = {
#define MARTLET_END_TOKEN(piece) piece,
#include "text/end_tokens.def"
#undef MARTLET_END_TOKEN
};

// What a kind of vocabulary means when its file does not say.
struct Defaults {
  std::string_view model;
  std::string_view pre;  // when the file names none
  Token bos, eos;
  bool adds_bos, adds_eos, adds_space_prefix;
};
constexpr Defaults kDefaults[] = {
    {"gpt2", "", -1, -1, false, false, false},
    {"gemma4", "gemma4", -1, -1, true, false, false},
    {"llama", "", 1, 2, true, false, true},
    {"t5", "", -1, 1, false, true, true},
};

Status read_pieces(const ModelFile& file, VocabularySource& out) {
  const StringArray* pieces = file.strings(KEY("tokens"));
  if (!pieces) return bad_vocabulary("there is no array of strings tokenizer.ggml.tokens");
  uint64_t bytes = 0;
  for (const std::string_view piece : *pieces) bytes += piece.size();
  if (pieces->empty() || pieces->size() > (1u << 30) || bytes > (1u << 31)) {
    return bad_vocabulary("tokenizer.ggml.tokens has no sensible size");
  }
  out.pieces = *pieces;
  out.owner = std::make_shared<std::vector<std::shared_ptr<const MappedFile>>>(file.files());
  return {};
}

Status read_kinds(const ModelFile& file, VocabularySource& out) {
  out.kinds.assign(out.pieces.size(), TokenKind::normal);
  if (!file.find(KEY("token_type"))) return {};
  const NumberArray* types = file.numbers(KEY("token_type"));
  if (!types || types->size < out.pieces.size() ||
      (types->type != NumberArray::Type::i32 && types->type != NumberArray::Type::u32)) {
    return bad_vocabulary("tokenizer.ggml.token_type is not one 32-bit integer for every token");
  }
  for (size_t i = 0; i < out.kinds.size(); ++i) {
    const int64_t type = types->integer(i);  // 1 normal ... 6 byte, in the order of TokenKind
    if (type < 1 || type > 6) return bad_vocabulary("tokenizer.ggml.token_type holds an unknown type");
    constexpr TokenKind kKinds[] = {TokenKind::normal,       TokenKind::unknown, TokenKind::control,
                                    TokenKind::user_defined, TokenKind::unused,  TokenKind::byte};
    out.kinds[i] = kKinds[type - 1];
    if (out.kinds[i] == TokenKind::byte && byte_of_piece(out.pieces[i]) < 0) {
      return bad_vocabulary("a byte token is not written <0x00> to <0xFF>");
    }
  }
  return {};
}

Status read_scores(const ModelFile& file, VocabularySource& out) {
  if (!file.find(KEY("scores"))) return {};
  const NumberArray* scores = file.numbers(KEY("scores"));
  if (!scores || scores->size < out.pieces.size() ||
      (scores->type != NumberArray::Type::f32 && scores->type != NumberArray::Type::f64)) {
    return bad_vocabulary("tokenizer.ggml.scores is not one float for every token");
  }
  out.scores.resize(out.pieces.size());
  for (size_t i = 0; i < out.scores.size(); ++i) {
    out.scores[i] = static_cast<float>(scores->number(i));
    if (std::isnan(out.scores[i])) return bad_vocabulary("tokenizer.ggml.scores holds what is not a number");
  }
  return {};
}

// The token that `key` names; `fallback` (if there is such a token) when the key is absent.
Result<Token> read_token(const ModelFile& file, std::string_view key, Token fallback, size_t size) {
  const auto count = static_cast<int64_t>(size);
  if (!file.find(key)) return fallback < count ? fallback : -1;
  const std::optional<int64_t> token = file.integer(key);
  if (!token || *token < 0 || *token >= count) {
    return bad_vocabulary("a key of tokenizer.ggml names a token that is not in the vocabulary");
  }
  return static_cast<Token>(*token);
}

Status read_end_tokens(const ModelFile& file, VocabularySource& out) {
  const size_t size = out.pieces.size();
  for (const char* key : {KEY("eot_token_id"), KEY("eom_token_id")}) {
    MARTLET_ASSIGN(const Token token, read_token(file, key, -1, size));
    out.stops.push_back(token);
  }
  MARTLET_TRY(read_token(file, KEY("unknown_token_id"), -1, size));
  if (const NumberArray* more = file.numbers(KEY("eos_token_ids"))) {
    for (size_t i = 0; i < more->size; ++i) {
      const int64_t token = more->integer(i);
      if (token < 0 || token >= static_cast<int64_t>(size))
        return bad_vocabulary("eos_token_ids names a token that is not in the vocabulary");
      out.stops.push_back(static_cast<Token>(token));
    }
  }
  out.stops.push_back(out.eos);
  for (size_t i = 0; i < size; ++i) {
    if (out.kinds[i] != TokenKind::control && out.kinds[i] != TokenKind::user_defined) continue;
    if (std::ranges::find(kEndTokens, out.pieces[i]) != std::end(kEndTokens))
      out.stops.push_back(static_cast<Token>(i));
  }
  std::erase(out.stops, -1);
  std::ranges::sort(out.stops);
  out.stops.erase(std::unique(out.stops.begin(), out.stops.end()), out.stops.end());
  // Some converters leave the kind of these at "normal" or "user defined"; text from users must not become one of them.
  for (const Token token : out.stops) out.kinds[token] = TokenKind::control;
  if (out.bos >= 0) out.kinds[out.bos] = TokenKind::control;
  return {};
}

Status read_flags(const ModelFile& file, const Defaults& defaults, VocabularySource& out) {
  out.pre = file.string(KEY("pre")).value_or(defaults.pre);
  const PreTokenizerRow* row = find_pre_tokenizer(out.pre);
  const bool adds_bos = defaults.adds_bos || (row && row->flags & kAddsBos && !out.merges.empty());
  out.adds_bos = file.boolean(KEY("add_bos_token")).value_or(adds_bos) && out.bos >= 0;
  out.adds_eos = file.boolean(KEY("add_eos_token")).value_or(defaults.adds_eos) && out.eos >= 0;
  // Byte-pair vocabularies carry the key too, without a meaning.
  out.adds_space_prefix = defaults.adds_space_prefix && file.boolean(KEY("add_space_prefix")).value_or(true);
  out.removes_extra_spaces = file.boolean(KEY("remove_extra_whitespaces")).value_or(false);
  if (const NumberArray* map = file.numbers(KEY("precompiled_charsmap"))) {
    out.charsmap = {reinterpret_cast<const char*>(map->bytes.data()), map->bytes.size()};
  }
  return {};
}

}  // namespace

Result<VocabularySource> read_vocabulary(const ModelFile& file) {
  VocabularySource out;
  out.model = file.string(KEY("model")).value_or("");
  const auto defaults = std::ranges::find(kDefaults, out.model, &Defaults::model);
  if (defaults == std::end(kDefaults)) {
    return Error{
        ErrorKind::model, "unsupported_tokenizer",
        "tokenizer.ggml.model is missing or names no known kind of vocabulary; gpt2, llama, t5 and gemma4 work",
        "tokenizer.ggml.model"};
  }
  MARTLET_TRY(read_pieces(file, out));
  MARTLET_TRY(read_kinds(file, out));
  MARTLET_TRY(read_scores(file, out));
  if (const StringArray* merges = file.strings(KEY("merges"))) out.merges = *merges;
  MARTLET_ASSIGN(out.bos, read_token(file, KEY("bos_token_id"), defaults->bos, out.pieces.size()));
  MARTLET_ASSIGN(out.eos, read_token(file, KEY("eos_token_id"), defaults->eos, out.pieces.size()));
  MARTLET_TRY(read_end_tokens(file, out));
  MARTLET_TRY(read_flags(file, *defaults, out));
  return out;
}

}  // namespace martlet
