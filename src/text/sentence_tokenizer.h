#pragma once

#include "text/piece_cache.h"
#include "text/sentence_normalizer.h"
#include "text/sentence_text.h"
#include "text/vocabulary_tokenizer.h"

namespace martlet {

// A SentencePiece tokenizer: special tokens, then normalisation, then words, which `Method` turns into tokens:
//   struct Method::Scratch;  working memory, kept from word to word
//   void Method::encode(std::string_view word, Scratch&, std::vector<Token>& out) const;
template <class Method>
class SentenceTokenizer final : public VocabularyTokenizer {
 public:
  // `method`: made from the vocabulary, which lives as long as the tokenizer.
  template <class Make>
  SentenceTokenizer(VocabularySource source, SentenceNormalizer normalizer, Make&& method)
      : VocabularyTokenizer(std::move(source), append_with_spaces),
        normalizer_(std::move(normalizer)),
        method_(method(vocabulary_)),
        words_stand_apart_(words_stand_apart(vocabulary_)) {}

  void encode(std::string_view text, std::span<const Span> trusted, std::vector<Token>& out) const override {
    typename Method::Scratch scratch;
    std::string marked;
    bool begins = true;  // a text, and what follows a special token, gets the artificial space
    specials_.split(text, trusted, [&](std::string_view plain, Token special) {
      marked.clear();
      normalizer_.append(plain, begins && strips_leading_space_, marked);
      encode_words(marked, scratch, out);
      begins = special >= 0;
      if (special >= 0) out.push_back(special);
    });
  }

 private:
  void encode_words(std::string_view marked, typename Method::Scratch& scratch, std::vector<Token>& out) const {
    PieceCache cache(marked.size());
    for_each_word(marked, words_stand_apart_, [&](std::string_view word) {
      if (cache.repeat(word, out)) return;
      const size_t begin = out.size();
      method_.encode(word, scratch, out);
      cache.remember(word, begin, out.size() - begin);
    });
  }

  SentenceNormalizer normalizer_;
  Method method_;
  bool words_stand_apart_;
};

}  // namespace martlet
