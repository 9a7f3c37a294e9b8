#include "text/unigram_tokenizer.h"

#include <algorithm>
#include <limits>

#include "base/utf8.h"
#include "text/byte_trie.h"
#include "text/sentence_tokenizer.h"

namespace martlet {
namespace {

// A character that no piece stands for costs this much more than the worst piece (SentencePiece's kUnkPenalty).
constexpr float kUnknownPenalty = 10;

class BestPath {
 public:
  // The best way to write the word up to some byte: its last piece, -1 for an unknown character.
  struct Step {
    double score;
    uint32_t begin;
    Token token;
  };
  struct Scratch {
    std::vector<Step> steps;     // by end of the piece
    std::vector<uint32_t> path;  // ends of the pieces chosen, last first
  };

  BestPath(const Vocabulary& vocabulary, std::vector<float> scores)
      : scores_(std::move(scores)), fallback_(vocabulary) {
    float least = 0;
    for (Token token = 0; token < static_cast<Token>(vocabulary.size()); ++token) {
      if (vocabulary.kind(token) != TokenKind::normal || vocabulary.piece(token).empty()) continue;
      trie_.insert(vocabulary.piece(token), static_cast<uint32_t>(token));
      least = std::min(least, scores_[token]);
    }
    unknown_score_ = least - kUnknownPenalty;
  }

  void encode(std::string_view word, Scratch& scratch, std::vector<Token>& out) const {
    auto& [steps, path] = scratch;
    steps.assign(word.size() + 1, {-std::numeric_limits<double>::infinity(), 0, -1});
    steps[0].score = 0;
    for (size_t at = 0; at < word.size();) {
      const size_t length = utf8::decode(word, at).length;
      if (!extend(word, at, at + length, steps))
        offer(steps[at + length], {steps[at].score + unknown_score_, static_cast<uint32_t>(at), -1});
      at += length;
    }
    path.clear();
    for (auto end = static_cast<uint32_t>(word.size()); end > 0; end = steps[end].begin) path.push_back(end);
    bool unknown = false;
    for (auto at = path.rbegin(); at != path.rend(); ++at) {
      const uint32_t end = *at;
      const Step& step = steps[end];
      // A run of unknown characters is one unknown token, but every one of them is spelled in bytes.
      if (step.token >= 0)
        out.push_back(step.token);
      else if (!unknown || fallback_.has_bytes())
        fallback_.append(word.substr(step.begin, end - step.begin), out);
      unknown = step.token < 0;
    }
  }

 private:
  static void offer(Step& best, const Step& step) {
    if (step.score > best.score) best = step;
  }

  // Offers every piece that begins at `at`. True when one of them is exactly the character, which ends at `character`.
  bool extend(std::string_view word, size_t at, size_t character, std::vector<Step>& steps) const {
    bool known = false;
    uint32_t node = ByteTrie::kRoot;
    for (size_t end = at; end < word.size();) {
      node = trie_.child(node, static_cast<uint8_t>(word[end++]));
      if (node == ByteTrie::kNone) break;
      const uint32_t token = trie_.value(node);
      if (token == ByteTrie::kNone) continue;
      known |= end == character;
      offer(steps[end], {steps[at].score + scores_[token], static_cast<uint32_t>(at), static_cast<Token>(token)});
    }
    return known;
  }

  std::vector<float> scores_;
  ByteFallback fallback_;
  ByteTrie trie_;
  float unknown_score_;
};

}  // namespace

Result<std::shared_ptr<const Tokenizer>> make_unigram_tokenizer(VocabularySource source) {
  if (source.scores.empty()) return bad_vocabulary("there is no array tokenizer.ggml.scores");
  MARTLET_ASSIGN(SentenceNormalizer normalizer,
                 SentenceNormalizer::create(source.charsmap, source.removes_extra_spaces));
  auto scores = std::move(source.scores);
  return std::shared_ptr<const Tokenizer>(std::make_shared<SentenceTokenizer<BestPath>>(
      std::move(source), std::move(normalizer),
      [&](const Vocabulary& vocabulary) { return BestPath(vocabulary, std::move(scores)); }));
}

}  // namespace martlet
