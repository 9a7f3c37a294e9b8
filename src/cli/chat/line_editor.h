#pragma once

#include <memory>
#include <optional>
#include <string>

namespace martlet::cli {

// Lines typed at a terminal, with editing and a history that is kept in a file (readable by its owner only).
class LineEditor {
 public:
  explicit LineEditor(const std::string& history_path);
  ~LineEditor();
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  enum class Event { line, interrupt, end };  // interrupt: Ctrl-C on an empty line (elsewhere it only clears the line)
  struct Input {
    Event event;
    std::string text;
  };
  Input read(const std::string& prompt);
  void remember(const std::string& text);  // adds to the history

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace martlet::cli
