#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace martlet::cli {

struct MarkdownOptions {
  int width = 80;        // columns of a line at most
  bool colours = false;  // SGR escape sequences
};

// Markdown as lines for a terminal. `source` holds no control characters but line breaks and tabs.
std::vector<std::string> render_markdown(std::string_view source, const MarkdownOptions& options);

// Length of the longest part of `source`, from its start, that is made of blocks which nothing that follows can change:
// up to a blank line and the line after it that is not indented, or up to the end of a fenced code block.
size_t finished_blocks(std::string_view source);

}  // namespace martlet::cli
