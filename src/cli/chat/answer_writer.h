#pragma once

#include <optional>
#include <string_view>

#include "cli/chat/markdown_stream.h"

namespace martlet::cli {

// Writes an answer to standard output as it comes: rendered Markdown on a terminal that can move its cursor, the bytes
// themselves elsewhere.
class AnswerWriter {
 public:
  // `markdown`: false writes plain text in any case.
  explicit AnswerWriter(bool markdown);
  void push(std::string_view text);
  void finish();  // the answer ends with a line break

 private:
  std::optional<MarkdownStream> stream_;
  bool terminal_;
  bool line_open_ = false;
};

}  // namespace martlet::cli
