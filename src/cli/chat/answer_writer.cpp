#include "cli/chat/answer_writer.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "cli/chat/text_layout.h"
#include "cli/style.h"

namespace martlet::cli {
namespace {

bool can_redraw() {
  const char* kind = std::getenv("TERM");
  return isatty(STDOUT_FILENO) == 1 && kind && *kind && std::string_view(kind) != "dumb";
}

ScreenSize screen_size() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return {};
  return {size.ws_col, size.ws_row};
}

void write_out(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

}  // namespace

AnswerWriter::AnswerWriter(bool markdown) : terminal_(isatty(STDOUT_FILENO) == 1) {
  if (!markdown || !can_redraw()) return;
  stream_.emplace(*style_of(STDOUT_FILENO).bold != '\0', screen_size, write_out);
}

void AnswerWriter::push(std::string_view text) {
  if (text.empty()) return;
  if (stream_) return stream_->push(text);
  write_out(terminal_ ? without_controls(text) : std::string(text));
  line_open_ = text.back() != '\n';
}

void AnswerWriter::finish() {
  if (stream_) return stream_->finish();
  if (line_open_) write_out("\n");
  line_open_ = false;
}

}  // namespace martlet::cli
