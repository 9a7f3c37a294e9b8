#include "gateway/file_facts.h"

#include <chrono>

#include <fmt/format.h>
#include <boost/json/serialize.hpp>

#include "chat/encode_chat.h"
#include "chat/prompt.h"
#include "gateway/questions.h"

namespace martlet::gateway {

namespace json = boost::json;

namespace {

// FNV-1a, 64 bits (http://www.isthe.com/chongo/tech/comp/fnv/): files are compared, not defended against.
class Hash {
 public:
  void add(std::string_view bytes) {
    for (const unsigned char byte : bytes) value_ = (value_ ^ byte) * 0x100000001b3u;
  }
  std::string text() const { return fmt::format("{:016x}", value_); }

 private:
  uint64_t value_ = 0xcbf29ce484222325u;
};

std::string vocabulary_hash(const Tokenizer& tokenizer) {
  Hash hash;
  for (Token token = 0; token < tokenizer.size(); ++token) {
    const std::string_view piece = tokenizer.piece(token);
    hash.add(std::to_string(piece.size()) + (tokenizer.kind(token) == TokenKind::control ? "c" : "t"));
    hash.add(piece);
  }
  return hash.text();
}

std::string list_of(std::span<const Token> tokens) {
  std::string out;
  for (const Token token : tokens) out += (out.empty() ? "" : " ") + std::to_string(token);
  return out;
}

std::string special_tokens(const Tokenizer& tokenizer) {
  return fmt::format("bos {} eos {} stop {}", tokenizer.bos(), tokenizer.eos(), list_of(tokenizer.stop_tokens()));
}

// Of texts and their places; empty ones count as if they were not there.
template <class Text>
std::string hash_of(size_t size, Text text_of) {
  Hash hash;
  for (size_t i = 0; i < size; ++i) {
    const std::string_view text = text_of(i);
    if (!text.empty()) hash.add(fmt::format("{}:{}:{}", i, text.size(), text));
  }
  return hash.text();
}

// What stands in front of a text.
std::string first_token(bool adds_bos, Token bos) {
  return adds_bos && bos >= 0 ? std::to_string(bos) : "none";
}

std::string ids_of(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<Token> tokens;
  tokenizer.encode(text, {}, tokens);
  return json::serialize(json::array(tokens.begin(), tokens.end()));
}

// Some templates write the date. Files are compared by what they give on one day, whichever it is; with what a server
// answers, on the day that it was asked, only what another date does not change.
constexpr std::chrono::system_clock::time_point kDay{std::chrono::hours(24 * 365 * 50)};
constexpr std::chrono::hours kOtherDate{24 * 400 + 7};  // another day, month and year, another hour

template <class Names>
void add_chat_texts(const ChatTemplate& chat_template, const Names& names, Fingerprint& out) {
  size_t number = 0;
  for (const json::array& messages : chats()) {
    const json::object inputs{{"messages", messages}, {"add_generation_prompt", true}};
    const auto text = render_chat(chat_template, names, inputs, kDay);
    const auto later = render_chat(chat_template, names, inputs, kDay + kOtherDate);
    if (text) out["template/file/" + std::to_string(number)] = text->text;
    if (text && later && text->text == later->text) out["template/text/" + std::to_string(number)] = text->text;
    ++number;
  }
}

// Of those that are the same on every day.
void add_chat_tokens(const TextModel& model, Fingerprint& out) {
  size_t next = 0;
  for (const json::array& messages : chats()) {
    const std::string number = std::to_string(next++);
    if (!out.contains("template/text/" + number)) continue;
    const json::object inputs{{"messages", messages}, {"add_generation_prompt", true}};
    const auto tokens = encode_chat(*model.chat_template, *model.tokenizer, inputs);
    if (tokens) out["template/tokens/" + number] = std::to_string(tokens->size());
  }
}

}  // namespace

Fingerprint facts_of(const TextModel& model) {
  const Tokenizer& tokenizer = *model.tokenizer;
  Fingerprint out;
  // With their kinds, which only such files have.
  out["vocabulary/file"] = vocabulary_hash(tokenizer);
  out["special/file"] = special_tokens(tokenizer);
  for (size_t i = 0; i < std::size(kTexts); ++i) {
    out["vocabulary/" + std::to_string(i)] = ids_of(tokenizer, kTexts[i]);
  }
  std::vector<Token> bare;
  tokenizer.encode(kBareText, {}, bare);
  out["bos/tokens"] = std::to_string(bare.size() + (tokenizer.adds_bos() ? 1 : 0));
  // Converters fill a vocabulary up to the rows of the model with tokens that are never used.
  const auto piece = [&](size_t i) {
    const auto token = static_cast<Token>(i);
    return tokenizer.kind(token) == TokenKind::unused ? std::string_view() : tokenizer.piece(token);
  };
  out["vocabulary/pieces"] = hash_of(tokenizer.size(), piece);
  if (const StringArray* merges = model.file->strings("tokenizer.ggml.merges")) {
    out["vocabulary/merges"] = hash_of(merges->size(), [&](size_t i) { return (*merges)[i]; });
  }
  out["special/eos"] = std::to_string(tokenizer.eos());
  out["bos/token"] = first_token(tokenizer.adds_bos(), tokenizer.bos());
  out[kStopTokens] = list_of(tokenizer.stop_tokens());
  if (!model.chat_template) return out;
  add_chat_texts(*model.chat_template, tokenizer, out);
  add_chat_tokens(model, out);
  return out;
}

Fingerprint facts_of(const ModelFolder& folder) {
  const std::vector<std::string>& pieces = folder.vocabulary.pieces;
  Fingerprint out;
  out["vocabulary/pieces"] = hash_of(pieces.size(), [&](size_t i) -> std::string_view { return pieces[i]; });
  const std::vector<std::string>& merges = folder.vocabulary.merges;
  if (!merges.empty()) {
    out["vocabulary/merges"] = hash_of(merges.size(), [&](size_t i) -> std::string_view { return merges[i]; });
  }
  out["special/eos"] = std::to_string(folder.eos);
  out["bos/token"] = first_token(folder.adds_bos, folder.bos);
  out[kStopTokens] = list_of(folder.stop_tokens);
  const TokenNames names{folder.bos_name, folder.eos_name};
  if (folder.chat_template) add_chat_texts(*folder.chat_template, names, out);
  return out;
}

}  // namespace martlet::gateway
