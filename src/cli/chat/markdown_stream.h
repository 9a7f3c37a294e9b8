#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/chat/markdown.h"

namespace martlet::cli {

struct ScreenSize {
  int columns = 80, rows = 24;
};

// Shows Markdown on a terminal while it is written. Blocks that are finished stay as they are; the block that is still
// growing is drawn anew, at most every 30 ms. Lines that have left the screen cannot be drawn anew and stay too.
class MarkdownStream {
 public:
  // `write` gets whole updates; `size` is asked before each.
  MarkdownStream(bool colours, std::function<ScreenSize()> size, std::function<void(const std::string&)> write);

  void push(std::string_view text);
  void finish();  // ends the last line; the stream is as new afterwards

 private:
  void draw();
  void replace(const std::vector<std::string>& lines);

  bool colours_;
  std::function<ScreenSize()> size_;
  std::function<void(const std::string&)> write_;
  std::string pending_;             // source of the block that is still growing
  std::vector<std::string> shown_;  // its lines on the screen; the cursor is at the end of the last
  bool first_ = true;               // no block is final yet
  std::chrono::steady_clock::time_point drawn_;
};

}  // namespace martlet::cli
