#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace martlet {

// Streams token ids to text for one sequence: emits whole UTF-8 only; bytes that cannot become valid are replaced by
// U+FFFD, an unfinished sequence only at the end. Not thread-safe.
class Detokenizer {
 public:
  // `continues`: the tokens continue a text (no leading space is dropped).
  Detokenizer(std::shared_ptr<const Tokenizer> tokenizer, bool special, bool continues);
  std::string push(Token token);
  std::string finish();

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::string pending_;
  bool special_, strip_;
};

// Cuts a stream of text at the first of several stop strings. Text that may be the start of a stop string is held back
// until it is decided. The stop string that is complete first cuts; of those complete at the same byte, the longest. An
// empty stop string never matches. Linear in the text whatever the stop strings. Not thread-safe.
class StopStrings {
 public:
  explicit StopStrings(std::vector<std::string> stops);
  ~StopStrings();
  StopStrings(StopStrings&&) noexcept;
  StopStrings& operator=(StopStrings&&) noexcept;
  // Text that may be shown now. After a match stopped() is true and nothing more comes out.
  std::string push(std::string_view text);
  std::string finish();  // what was held back, when the stream ends without a match
  bool stopped() const;
  std::string_view matched() const;  // the stop string that matched, or empty

 private:
  struct Machine;
  std::unique_ptr<Machine> machine_;
};

}  // namespace martlet
