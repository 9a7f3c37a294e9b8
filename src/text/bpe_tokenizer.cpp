#include "text/bpe_tokenizer.h"

#include <algorithm>

#include "base/utf8.h"
#include "text/byte_alphabet.h"
#include "text/merges.h"
#include "text/piece_cache.h"
#include "text/pre_tokenizer.h"
#include "text/sentence_text.h"
#include "text/vocabulary_tokenizer.h"

namespace martlet {
namespace {

void spell_bytes(std::string_view piece, std::string& out) {
  ByteAlphabet::instance().decode(piece, out);
}

class BpeTokenizer final : public VocabularyTokenizer {
 public:
  BpeTokenizer(VocabularySource source, const PreTokenizerRow& row)
      : VocabularyTokenizer(std::move(source), row.flags & kCharacters ? append_with_spaces : spell_bytes),
        pre_tokenizer_(row),
        takes_whole_pieces_(row.flags & kTakesWholePieces),
        characters_(row.flags & kCharacters) {
    if (characters_) {
      byte_tokens_ = vocabulary_.byte_tokens();
      for (uint8_t c = 0; c < 128; ++c)
        ascii_tokens_.push_back(
            vocabulary_.find_normal(c == ' ' ? std::string(kSpaceMark) : std::string(1, static_cast<char>(c))));
    } else {
      for (int byte = 0; byte < 256; ++byte)
        byte_tokens_.push_back(vocabulary_.find_normal(ByteAlphabet::instance().letter(byte)));
    }
  }
  Status read_merges(const std::vector<std::string_view>& lines) {
    MARTLET_ASSIGN(merges_, Merges::create(lines, vocabulary_));
    return {};
  }

  void encode(std::string_view text, std::span<const Span> trusted, std::vector<Token>& out) const override {
    State state(text.size());
    specials_.split(text, trusted, [&](std::string_view plain, Token special) {
      pre_tokenizer_.split(plain, state.match, [&](std::string_view piece) { encode_piece(piece, state, out); });
      if (special >= 0) out.push_back(special);
    });
  }

 private:
  struct State {
    explicit State(size_t size) : cache(size) {}
    Pattern::Match match;
    Merges::Scratch scratch;
    PieceCache cache;
    std::vector<Token> symbols;
    std::string letters;
  };

  void encode_piece(std::string_view piece, State& state, std::vector<Token>& out) const {
    if (state.cache.repeat(piece, out)) return;
    const size_t begin = out.size();
    const Token whole = takes_whole_pieces_ ? find_whole(piece, state.letters) : -1;
    if (whole >= 0) {
      out.push_back(whole);
    } else {
      state.symbols.clear();
      if (characters_)
        append_characters(piece, state.symbols);
      else
        for (const char c : piece) state.symbols.push_back(byte_tokens_[static_cast<uint8_t>(c)]);
      merges_.apply(state.symbols, state.scratch);
      // A byte for which the vocabulary has no token (some leave out what UTF-8 rarely holds) has no place in the
      // result.
      std::ranges::copy_if(state.symbols, std::back_inserter(out), [](Token token) { return token >= 0; });
    }
    state.cache.remember(piece, begin, out.size() - begin);
  }

  Token find_whole(std::string_view piece, std::string& letters) const {
    if (piece.size() > vocabulary_.longest_piece()) return -1;
    letters.clear();
    for (const char c : piece) letters += ByteAlphabet::instance().letter(static_cast<uint8_t>(c));
    return vocabulary_.find_normal(letters);
  }

  void append_characters(std::string_view piece, std::vector<Token>& symbols) const {
    for (size_t i = 0; i < piece.size();) {
      const auto first = static_cast<uint8_t>(piece[i]);
      const size_t length = first < 0x80 ? 1 : utf8::decode(piece, i).length;
      const Token token = first < 0x80 ? ascii_tokens_[first] : vocabulary_.find_normal(piece.substr(i, length));
      if (token >= 0)
        symbols.push_back(token);
      else
        for (size_t k = 0; k < length; ++k) symbols.push_back(byte_tokens_[static_cast<uint8_t>(piece[i + k])]);
      i += length;
    }
  }

  PreTokenizer pre_tokenizer_;
  Merges merges_;
  std::vector<Token> byte_tokens_, ascii_tokens_;  // -1: no such token
  bool takes_whole_pieces_, characters_;
};

}  // namespace

Result<std::shared_ptr<const Tokenizer>> make_bpe_tokenizer(VocabularySource source) {
  const PreTokenizerRow* row = find_pre_tokenizer(source.pre);
  if (!row) {
    return Error{
        ErrorKind::model, "unsupported_tokenizer",
        "tokenizer.ggml.pre is missing or names no known pre-tokenizer; convert the model again with a current "
        "converter, or set the key to the name that its tokenizer needs",
        "tokenizer.ggml.pre"};
  }
  const std::vector<std::string_view> merges = std::move(source.merges);
  auto tokenizer = std::make_shared<BpeTokenizer>(std::move(source), *row);
  MARTLET_TRY(tokenizer->read_merges(merges));
  return std::shared_ptr<const Tokenizer>(std::move(tokenizer));
}

}  // namespace martlet
