#pragma once

// A batch that owns its arrays, for tests of backends; those on a GPU include it too, so nothing of GoogleTest is here.

#include <span>
#include <vector>

#include "backend/batch.h"

namespace martlet {

// Rows of sequences appended one after the other, each with its own pages.
struct Rows {
  std::vector<Token> tokens;
  std::vector<int32_t> positions, starts = {0}, lengths, outputs, page_starts = {0};
  std::vector<Page> pages;
  std::vector<PageCopy> copies;

  // Rows at positions first .. of a sequence, token after token; all of them outputs.
  void add(std::span<const Token> row_tokens, int32_t first, std::span<const Page> sequence_pages) {
    for (const Token token : row_tokens) {
      outputs.push_back(static_cast<int32_t>(tokens.size()));
      positions.push_back(first++);
      tokens.push_back(token);
    }
    starts.push_back(static_cast<int32_t>(tokens.size()));
    lengths.push_back(first);
    pages.insert(pages.end(), sequence_pages.begin(), sequence_pages.end());
    page_starts.push_back(static_cast<int32_t>(pages.size()));
  }

  PageTable page_table() const { return {page_starts, pages}; }

  // Borrowed from here and from the table.
  Batch batch(const PageTable& table) const {
    return {.tokens = tokens,
            .positions = positions,
            .starts = starts,
            .context_lengths = lengths,
            .groups = {&table, 1},
            .copies = copies,
            .outputs = outputs};
  }
};

}  // namespace martlet
