#include "text/spm_tokenizer.h"

#include <algorithm>
#include <cstring>

#include "base/utf8.h"
#include "text/piece_cache.h"
#include "text/sentence_text.h"
#include "text/vocabulary_tokenizer.h"

namespace martlet {
namespace {

class SpmTokenizer final : public VocabularyTokenizer {
 public:
  SpmTokenizer(VocabularySource source, std::vector<float> scores)
      : VocabularyTokenizer(std::move(source), append_with_spaces),
        scores_(std::move(scores)),
        fallback_(vocabulary_),
        words_(words_stand_apart(vocabulary_)) {}

  void encode(std::string_view text, std::span<const Span> trusted, std::vector<Token>& out) const override {
    State state;
    bool begins = true;  // a text, and what follows a special token, gets the artificial space
    specials_.split(text, trusted, [&](std::string_view plain, Token special) {
      if (!plain.empty()) encode_plain(plain, begins && strips_leading_space_, state, out);
      begins = special >= 0;
      if (special >= 0) out.push_back(special);
    });
  }

 private:
  static constexpr uint32_t kEnd = ~uint32_t{0};
  // A piece of the word, in a list of its neighbours. `token` is -1 for a character that is no piece.
  struct Symbol {
    uint32_t begin, length, previous, next;
    Token token;
  };
  // Two neighbours that form a piece. Stale once the length at `left` no longer fits.
  struct Candidate {
    float score;
    uint32_t left, length;
    Token token;
    bool operator<(const Candidate& other) const {
      return score != other.score ? score < other.score : left > other.left;
    }
  };
  struct State {
    std::string marked;
    std::vector<Symbol> symbols;
    std::vector<Candidate> queue;
  };

  void encode_plain(std::string_view plain, bool prefix, State& state, std::vector<Token>& out) const {
    state.marked.assign(prefix ? kSpaceMark : "");
    append_with_marks(plain, state.marked);
    PieceCache cache(state.marked.size());
    for_each_word(state.marked, words_, [&](std::string_view word) {
      if (cache.repeat(word, out)) return;
      const size_t begin = out.size();
      encode_word(word, state, out);
      cache.remember(word, begin, out.size() - begin);
    });
  }

  void encode_word(std::string_view word, State& state, std::vector<Token>& out) const {
    auto& [marked, symbols, queue] = state;
    split_characters(word, symbols);
    queue.clear();
    for (uint32_t i = 0; i + 1 < symbols.size(); ++i) consider(word, i, i + 1, state);
    while (!queue.empty()) {
      const Candidate best = queue.front();
      std::pop_heap(queue.begin(), queue.end());
      queue.pop_back();
      Symbol& left = symbols[best.left];
      if (left.length == 0 || left.next == kEnd || left.length + symbols[left.next].length != best.length) continue;
      Symbol& right = symbols[left.next];
      left.length = best.length;
      left.token = best.token;
      left.next = right.next;
      right.length = 0;
      if (left.next != kEnd) symbols[left.next].previous = best.left;
      consider(word, left.previous, best.left, state);
      consider(word, best.left, left.next, state);
    }
    for (uint32_t i = 0; i != kEnd && i < symbols.size(); i = symbols[i].next) {
      if (symbols[i].token >= 0) out.push_back(symbols[i].token);
      else fallback_.append(word.substr(symbols[i].begin, symbols[i].length), out);
    }
  }

  void split_characters(std::string_view word, std::vector<Symbol>& symbols) const {
    symbols.clear();
    for (size_t at = 0; at < word.size();) {
      const uint32_t length = utf8::decode(word, at).length, index = static_cast<uint32_t>(symbols.size());
      symbols.push_back({static_cast<uint32_t>(at), length, index - 1, index + 1, find_normal(word.substr(at, length))});
      at += length;
    }
    symbols.back().next = kEnd;
  }

  void consider(std::string_view word, uint32_t left, uint32_t right, State& state) const {
    if (left == kEnd || right == kEnd) return;
    const uint32_t length = state.symbols[left].length + state.symbols[right].length;
    if (length > vocabulary_.longest_piece()) return;
    const Token token = find_normal(word.substr(state.symbols[left].begin, length));
    if (token < 0) return;
    state.queue.push_back({scores_[token], left, length, token});
    std::push_heap(state.queue.begin(), state.queue.end());
  }

  std::vector<float> scores_;
  ByteFallback fallback_;
  bool words_;
};

}  // namespace

Result<std::shared_ptr<const Tokenizer>> make_spm_tokenizer(VocabularySource source) {
  if (source.scores.empty()) return bad_vocabulary("there is no array tokenizer.ggml.scores");
  std::vector<float> scores = std::move(source.scores);
  return std::shared_ptr<const Tokenizer>(std::make_shared<SpmTokenizer>(std::move(source), std::move(scores)));
}

}  // namespace martlet
