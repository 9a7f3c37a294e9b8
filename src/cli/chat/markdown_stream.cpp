#include "cli/chat/markdown_stream.h"

#include <algorithm>

#include "cli/chat/text_layout.h"

namespace martlet::cli {
namespace {

constexpr auto kRedraw = std::chrono::milliseconds(30);

}  // namespace

MarkdownStream::MarkdownStream(bool colours, std::function<ScreenSize()> size,
                               std::function<void(const std::string&)> write)
    : colours_(colours), size_(std::move(size)), write_(std::move(write)) {}

void MarkdownStream::push(std::string_view text) {
  pending_ += without_controls(text);  // a model's output must not steer the terminal
  if (std::chrono::steady_clock::now() - drawn_ >= kRedraw) draw();
}

void MarkdownStream::draw() {
  drawn_ = std::chrono::steady_clock::now();
  const size_t finished = finished_blocks(pending_);
  // The last column stays free: a cursor behind it is in a state that terminals do not agree on.
  const MarkdownOptions options{std::max(20, size_().columns - 1), colours_};
  const auto lines_of = [&](std::string_view source) {
    std::vector<std::string> lines = render_markdown(source, options);
    if (!first_ && !lines.empty()) lines.insert(lines.begin(), std::string());  // a blank line between blocks
    return lines;
  };
  if (finished > 0) {
    const std::vector<std::string> lines = lines_of(std::string_view(pending_).substr(0, finished));
    replace(lines);
    if (!lines.empty()) {
      write_("\n");
      first_ = false;
    }
    shown_.clear();
    pending_.erase(0, finished);
  }
  replace(lines_of(pending_));
}

void MarkdownStream::replace(const std::vector<std::string>& lines) {
  const size_t reach = static_cast<size_t>(std::max(1, size_().rows - 1));  // lines that the cursor can go back to
  size_t from = static_cast<size_t>(std::ranges::mismatch(shown_, lines).in1 - shown_.begin());
  if (from == shown_.size() && from == lines.size()) return;
  std::string out;
  if (from < shown_.size()) {
    from = std::max(from, shown_.size() - std::min(shown_.size(), reach));
    const size_t up = shown_.size() - 1 - from;
    if (up > 0) out += "\x1b[" + std::to_string(up) + "A";
    out += "\r\x1b[J";
  } else if (from > 0) {
    out += "\n";
  }
  for (size_t i = from; i < lines.size(); ++i) out += (i > from ? "\n" : "") + lines[i];
  shown_ = lines;
  write_(out);
}

void MarkdownStream::finish() {
  draw();
  if (!shown_.empty()) write_("\n");
  pending_.clear();
  shown_.clear();
  first_ = true;
}

}  // namespace martlet::cli
