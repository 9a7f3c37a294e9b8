#include "gateway/file_facts.h"

#include <chrono>

#include <fmt/format.h>
#include <boost/json/serialize.hpp>

#include "chat/encode_chat.h"
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

std::string special_tokens(const Tokenizer& tokenizer) {
  std::string out = fmt::format("bos {} eos {} stop", tokenizer.bos(), tokenizer.eos());
  for (const Token token : tokenizer.stop_tokens()) out += " " + std::to_string(token);
  return out;
}

std::string ids_of(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<Token> tokens;
  tokenizer.encode(text, {}, tokens);
  return json::serialize(json::array(tokens.begin(), tokens.end()));
}

void add_chats(const Tokenizer& tokenizer, const ChatTemplate& chat_template, Fingerprint& out) {
  const std::vector<json::array> all = chats();
  for (size_t i = 0; i < all.size(); ++i) {
    const json::object inputs{{"messages", all[i]}, {"add_generation_prompt", true}};
    const std::string number = std::to_string(i);
    const auto text = render_chat(chat_template, tokenizer, inputs, std::chrono::system_clock::now());
    const auto tokens = encode_chat(chat_template, tokenizer, inputs);
    if (text) out["template/text/" + number] = text->text;
    if (tokens) out["template/tokens/" + number] = std::to_string(tokens->size());
  }
}

}  // namespace

Fingerprint facts_of(const Tokenizer& tokenizer, const ChatTemplate* chat_template) {
  Fingerprint out;
  out["vocabulary/file"] = vocabulary_hash(tokenizer);
  out["special/file"] = special_tokens(tokenizer);
  for (size_t i = 0; i < std::size(kTexts); ++i) {
    out["vocabulary/" + std::to_string(i)] = ids_of(tokenizer, kTexts[i]);
  }
  std::vector<Token> bare;
  tokenizer.encode(kBareText, {}, bare);
  out["bos/tokens"] = std::to_string(bare.size() + (tokenizer.adds_bos() ? 1 : 0));
  if (chat_template) add_chats(tokenizer, *chat_template, out);
  return out;
}

Result<Fingerprint> facts_of_file(const std::string& path) {
  MARTLET_ASSIGN(const std::shared_ptr<const ModelFile> file, ModelFile::open(path));
  MARTLET_ASSIGN(const std::shared_ptr<const Tokenizer> tokenizer, Tokenizer::create(*file));
  const auto chat_template = load_chat_template(*file);
  return facts_of(*tokenizer, chat_template ? chat_template->get() : nullptr);
}

}  // namespace martlet::gateway
