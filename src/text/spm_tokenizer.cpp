#include "text/spm_tokenizer.h"

#include <bit>

#include "base/utf8.h"
#include "text/min_heap.h"
#include "text/sentence_tokenizer.h"

namespace martlet {
namespace {

class ScoreMerges {
 public:
  // A part of the word, in a list of its neighbours.
  struct Symbol {
    uint32_t begin, length, previous, next;
    Token token;      // -1 for a character that is no piece
    Token pair = -1;  // the piece that it forms with its next, -1 when there is none
  };
  struct Scratch {
    std::vector<Symbol> symbols;
    std::vector<uint64_t> queue;  // order of the pair's score << 32 | the symbol at its left; may be stale
  };

  ScoreMerges(const Vocabulary& vocabulary, std::vector<float> scores)
      : vocabulary_(vocabulary), scores_(std::move(scores)), fallback_(vocabulary) {}

  void encode(std::string_view word, Scratch& scratch, std::vector<Token>& out) const {
    auto& [symbols, queue] = scratch;
    split_characters(word, symbols);
    queue.clear();
    for (uint32_t i = 0; i + 1 < symbols.size(); ++i) pair_up(word, i, scratch);
    while (!queue.empty()) {
      const uint64_t best = pop_min(queue);
      const auto index = static_cast<uint32_t>(best);
      Symbol& left = symbols[index];
      if (left.pair < 0 || order(scores_[left.pair]) != best >> 32) continue;
      Symbol& right = symbols[left.next];
      left.length += right.length;
      left.token = left.pair;
      left.next = right.next;
      right.pair = -1;
      if (left.next != kEnd) symbols[left.next].previous = index;
      pair_up(word, index, scratch);
      if (left.previous != kEnd) pair_up(word, left.previous, scratch);
    }
    for (uint32_t i = 0; i != kEnd; i = symbols[i].next) {
      if (symbols[i].token >= 0)
        out.push_back(symbols[i].token);
      else
        fallback_.append(word.substr(symbols[i].begin, symbols[i].length), out);
    }
  }

 private:
  static constexpr uint32_t kEnd = ~uint32_t{0};

  // Ascends as scores descend: the bits of floats of one sign are ordered as the floats are.
  static uint32_t order(float score) {
    const auto bits = std::bit_cast<uint32_t>(score + 0.0f);  // -0 becomes 0
    return bits >> 31 ? bits : 0x7fffffffu - bits;
  }

  void split_characters(std::string_view word, std::vector<Symbol>& symbols) const {
    symbols.clear();
    for (size_t at = 0; at < word.size();) {
      const uint32_t length = utf8::decode(word, at).length, index = static_cast<uint32_t>(symbols.size());
      symbols.push_back(
          {static_cast<uint32_t>(at), length, index - 1, index + 1, vocabulary_.find_normal(word.substr(at, length))});
      at += length;
    }
    symbols.back().next = kEnd;
  }

  // Finds what a symbol forms with its next.
  void pair_up(std::string_view word, uint32_t index, Scratch& scratch) const {
    Symbol& left = scratch.symbols[index];
    left.pair = -1;
    if (left.next == kEnd) return;
    const size_t length = size_t{left.length} + scratch.symbols[left.next].length;
    if (length > vocabulary_.longest_piece()) return;
    left.pair = vocabulary_.find_normal(word.substr(left.begin, length));
    if (left.pair >= 0) push_min(scratch.queue, uint64_t{order(scores_[left.pair])} << 32 | index);
  }

  const Vocabulary& vocabulary_;
  std::vector<float> scores_;
  ByteFallback fallback_;
};

}  // namespace

Result<std::shared_ptr<const Tokenizer>> make_spm_tokenizer(VocabularySource source) {
  if (source.scores.empty()) return bad_vocabulary("there is no array tokenizer.ggml.scores");
  MARTLET_ASSIGN(SentenceNormalizer normalizer, SentenceNormalizer::create({}, false));
  auto scores = std::move(source.scores);
  return std::shared_ptr<const Tokenizer>(std::make_shared<SentenceTokenizer<ScoreMerges>>(
      std::move(source), std::move(normalizer),
      [&](const Vocabulary& vocabulary) { return ScoreMerges(vocabulary, std::move(scores)); }));
}

}  // namespace martlet
