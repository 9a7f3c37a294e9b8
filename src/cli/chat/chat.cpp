#include "cli/chat/chat.h"

#include <algorithm>
#include <cstdio>
#include <optional>

#include "chat/encode_chat.h"
#include "cli/chat/answer_writer.h"
#include "cli/chat/conversation.h"
#include "cli/chat/generate.h"
#include "cli/chat/line_editor.h"
#include "cli/style.h"
#include "hub/paths.h"

namespace martlet::cli {
namespace {

constexpr const char* kPrompt = "> ";
constexpr const char* kMore = ". ";  // the line before ended with a backslash

class Chat {
 public:
  Chat(const Loaded& model, const ChatOptions& options)
      : model_(model),
        options_(options),
        editor_((state_directory() / "history").string()),
        style_(style_of(STDERR_FILENO)) {
    conversation_.system = options.system;
  }

  int run();

 private:
  struct Command {
    const char* name;
    const char* argument;
    const char* help;
    void (Chat::*run)(const std::string& argument);
  };
  static const Command kCommands[];

  LineEditor::Input read();
  void handle(const std::string& text);
  void command(const std::string& text);
  void answer(const std::string& text);
  void note(const std::string& text) const;
  void complain(const Error& error) const { note(error.line()); }

  void help(const std::string&);
  void system(const std::string& text);
  void reset(const std::string&);
  void save(const std::string& path);
  void load(const std::string& path);
  void stats(const std::string&);
  void exit(const std::string&) { done_ = true; }

  const Loaded& model_;
  const ChatOptions& options_;
  LineEditor editor_;
  Style style_;
  Conversation conversation_;
  std::optional<Answer> last_;
  int64_t answers_ = 0, tokens_ = 0;  // counted here: the engine publishes its own a moment after an answer ends
  int interrupts_ = 0;                // in a row
  bool done_ = false;
};

const Chat::Command Chat::kCommands[] = {
    {"/help", "", "this list", &Chat::help},
    {"/system", "TEXT", "sets the system prompt from here on; without TEXT, shows it", &Chat::system},
    {"/reset", "", "forgets the conversation, keeps the system prompt", &Chat::reset},
    {"/save", "FILE", "writes the conversation to a file", &Chat::save},
    {"/load", "FILE", "goes on with a conversation from a file", &Chat::load},
    {"/stats", "", "speed of the last answer, memory in use", &Chat::stats},
    {"/exit", "", "leaves; so do Ctrl-D, and Ctrl-C twice", &Chat::exit},
};

int Chat::run() {
  note(model_.name + ". /help lists the commands; Ctrl-C stops an answer; a line that ends with \\ goes on.");
  while (!done_) {
    const LineEditor::Input input = read();
    if (input.event == LineEditor::Event::end) break;
    if (input.event == LineEditor::Event::interrupt) {
      if (++interrupts_ >= 2) return 130;
      note("Ctrl-C once more leaves.");
      continue;
    }
    interrupts_ = 0;
    if (input.text.find_first_not_of(" \t") == std::string::npos) continue;
    editor_.remember(input.text);
    handle(input.text);
  }
  return 0;
}

// One input of one or more lines.
LineEditor::Input Chat::read() {
  LineEditor::Input input = editor_.read(kPrompt);
  while (input.event == LineEditor::Event::line && input.text.ends_with('\\')) {
    LineEditor::Input more = editor_.read(kMore);
    if (more.event != LineEditor::Event::line) return more;
    input.text.back() = '\n';
    input.text += more.text;
  }
  return input;
}

void Chat::handle(const std::string& text) {
  text.starts_with('/') ? command(text) : answer(text);
}

void Chat::command(const std::string& text) {
  const size_t space = std::min(text.find(' '), text.size());
  const size_t argument = std::min(text.find_first_not_of(' ', space), text.size());
  const std::string name = text.substr(0, space);
  const auto* found = std::ranges::find(kCommands, name, &Command::name);
  if (found == std::end(kCommands)) return note("No such command: /help lists them.");
  (this->*found->run)(text.substr(argument, text.find_last_not_of(' ') + 1 - argument));
}

void Chat::answer(const std::string& text) {
  Conversation next = conversation_;
  next.messages.push_back({"user", text});
  Result<std::vector<Token>> prompt = encode_chat(**model_.chat_template, *model_.tokenizer,
                                                  {{"messages", next.to_template()}, {"add_generation_prompt", true}});
  if (!prompt) return complain(prompt.error());
  AnswerWriter writer(true);
  Result<Answer> result = generate(model_, make_request(model_, std::move(*prompt), options_), false,
                                   [&](std::string_view piece) { writer.push(piece); });
  writer.finish();
  if (!result) return complain(result.error());
  if (result->interrupted) interrupts_ = 1;
  next.messages.push_back({"assistant", result->text});
  conversation_ = std::move(next);
  last_ = std::move(*result);
  ++answers_;
  tokens_ += last_->finish.usage.output_tokens;
  note(last_->summary());
}

void Chat::note(const std::string& text) const {
  std::fflush(stdout);
  std::fprintf(stderr, "%s%s%s\n", style_.dim, text.c_str(), style_.plain);
}

void Chat::help(const std::string&) {
  for (const Command& row : kCommands) std::fprintf(stderr, "%-8s %-5s %s\n", row.name, row.argument, row.help);
}

void Chat::system(const std::string& text) {
  if (!text.empty()) conversation_.system = text;
  note(conversation_.system.empty() ? "No system prompt." : "System prompt: " + conversation_.system);
}

void Chat::reset(const std::string&) {
  conversation_.messages.clear();
  note("The conversation is empty.");
}

void Chat::save(const std::string& path) {
  if (path.empty()) return note("/save needs the name of a file.");
  const Status status = conversation_.save(path);
  status ? note("Saved " + std::to_string(conversation_.messages.size()) + " messages.") : complain(status.error());
}

void Chat::load(const std::string& path) {
  if (path.empty()) return note("/load needs the name of a file.");
  Result<Conversation> loaded = Conversation::load(path);
  if (!loaded) return complain(loaded.error());
  conversation_ = std::move(*loaded);
  note("Loaded " + std::to_string(conversation_.messages.size()) + " messages.");
}

void Chat::stats(const std::string&) {
  if (last_) {
    const Usage& usage = last_->finish.usage;
    note(last_->summary());
    note("context " + std::to_string(usage.prompt_tokens + usage.output_tokens) + " of " +
         std::to_string(model_.engine->context()) + " tokens");
  }
  const EngineStats stats = model_.engine->stats();
  note(std::to_string(answers_) + " answers, " + std::to_string(tokens_) + " tokens; cache pages " +
       std::to_string(stats.pages_used) + " in use, " + std::to_string(stats.pages_cached) + " kept, of " +
       std::to_string(stats.pages_total));
}

}  // namespace

Request make_request(const Loaded& model, std::vector<Token> prompt, const ChatOptions& options) {
  Request request;
  request.prompt = std::move(prompt);
  request.sampling = options.sampling;
  request.max_tokens = options.max_tokens;
  const auto stops = model.tokenizer->stop_tokens();
  request.stop_tokens.assign(stops.begin(), stops.end());
  return request;
}

int chat(const Loaded& model, const ChatOptions& options) {
  return Chat(model, options).run();
}

}  // namespace martlet::cli
