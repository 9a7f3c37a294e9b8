#pragma once

// One regular expression of a pre-tokenizer: a compiled PCRE2 program. Immutable, thread-safe.

#include <memory>
#include <string>
#include <string_view>

#include "text/tokenizer.h"

namespace martlet {

class Pattern {
 public:
  // `expression`: PCRE2 syntax with Unicode properties; `\s` and `\S` mean Unicode White_Space. Our own data: an
  // expression that does not compile is a bug.
  explicit Pattern(std::string_view expression);

  // Working memory of one thread, for patterns of any kind.
  class Match {
   public:
    Match();

   private:
    friend class Pattern;
    std::unique_ptr<void, void (*)(void*)> data_, context_;
  };
  // The first non-empty match in `text` (valid UTF-8) at or after `from`; an empty span at the end of the text when
  // there is none, or when a match would take more than the bounds on steps and memory.
  Span find(std::string_view text, size_t from, Match& match) const;

 private:
  std::shared_ptr<const void> code_;
};

}  // namespace martlet
