#include "cli/chat/line_editor.h"

#include <histedit.h>
#include <sys/stat.h>

#include <cstdio>
#include <filesystem>

namespace martlet::cli {
namespace {

constexpr int kHistoryLines = 1000;

}  // namespace

struct LineEditor::State {
  EditLine* editor = nullptr;
  History* history = nullptr;
  std::string path, prompt;
  bool interrupted = false;

  static State& of(EditLine* editor) {
    void* data = nullptr;
    el_get(editor, EL_CLIENTDATA, &data);
    return *static_cast<State*>(data);
  }
  static char* prompt_of(EditLine* editor) { return of(editor).prompt.data(); }

  // Bound to Ctrl-C, which is an ordinary key while a line is edited.
  static unsigned char interrupt(EditLine* editor, int) {
    const LineInfo* line = el_line(editor);
    const auto length = static_cast<int>(line->lastchar - line->buffer);
    of(editor).interrupted = length == 0;
    if (length == 0) return CC_NEWLINE;
    el_cursor(editor, static_cast<int>(line->lastchar - line->cursor));
    el_deletestr(editor, length);
    return CC_REFRESH;
  }
};

LineEditor::LineEditor(const std::string& history_path) : state_(std::make_unique<State>()) {
  State& s = *state_;
  s.path = history_path;
  s.editor = el_init("martlet", stdin, stdout, stderr);
  s.history = history_init();
  HistEvent event;
  history(s.history, &event, H_SETSIZE, kHistoryLines);
  history(s.history, &event, H_SETUNIQUE, 1);
  history(s.history, &event, H_LOAD, s.path.c_str());
  el_set(s.editor, EL_CLIENTDATA, &s);
  el_set(s.editor, EL_PROMPT, &State::prompt_of);
  el_set(s.editor, EL_EDITOR, "emacs");
  el_set(s.editor, EL_HIST, history, s.history);
  el_set(s.editor, EL_SIGNAL, 1);  // signals from elsewhere leave the terminal as it was
  el_set(s.editor, EL_ADDFN, "martlet-interrupt", "clears the line, or interrupts", &State::interrupt);
  el_set(s.editor, EL_SETTY, "-d", "-isig", nullptr);
  el_set(s.editor, EL_BIND, "^C", "martlet-interrupt", nullptr);
  el_set(s.editor, EL_BIND, "^R", "em-inc-search-prev", nullptr);
  el_source(s.editor, nullptr);  // the user's own bindings
}

LineEditor::~LineEditor() {
  history_end(state_->history);
  el_end(state_->editor);
}

LineEditor::Input LineEditor::read(const std::string& prompt) {
  state_->prompt = prompt;
  state_->interrupted = false;
  // The terminal is raw before the prompt shows, not after: a Ctrl-C typed at once is a key already.
  el_set(state_->editor, EL_PREP_TERM, 1);
  int count = 0;
  const char* line = el_gets(state_->editor, &count);
  if (state_->interrupted) {
    std::fputs("\n", stdout);
    return {Event::interrupt, ""};
  }
  if (!line || count <= 0) return {Event::end, ""};
  std::string text(line, static_cast<size_t>(count));
  if (text.ends_with('\n')) text.pop_back();
  return {Event::line, text};
}

void LineEditor::remember(const std::string& text) {
  HistEvent event;
  history(state_->history, &event, H_ENTER, text.c_str());
  // Saved at once: a chat may end by a signal. A history that cannot be kept is no reason to stop.
  std::error_code ignored;
  std::filesystem::create_directories(std::filesystem::path(state_->path).parent_path(), ignored);
  const mode_t before = umask(077);
  history(state_->history, &event, H_SAVE, state_->path.c_str());
  umask(before);
}

}  // namespace martlet::cli
