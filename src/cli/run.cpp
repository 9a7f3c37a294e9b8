#include <langinfo.h>
#include <unistd.h>

#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <memory>
#include <optional>
#include <string_view>

#include "base/utf8.h"
#include "chat/encode_chat.h"
#include "cli/backends.h"
#include "cli/cache_type.h"
#include "cli/chat/answer_writer.h"
#include "cli/chat/chat.h"
#include "cli/chat/generate.h"
#include "cli/chat/text_file.h"
#include "cli/command.h"
#include "cli/draft_flags.h"
#include "cli/load.h"
#include "cli/memory_flags.h"
#include "cli/style.h"
#include "cli/whole_number.h"

namespace martlet::cli {
namespace {

// What is asked where nobody is there to ask: the end of `make run`.
constexpr const char* kSampleQuestion = "In two sentences: what is a house martin, and where does it build its nest?";
constexpr int32_t kSampleTokens = 200;
constexpr int32_t kUnlimited = std::numeric_limits<int32_t>::max();

struct Flags {
  LoadOptions load;
  DraftFlags draft;
  ChatOptions chat{.system = "", .sampling = {.temperature = 0.7f, .min_p = 0.05f}, .max_tokens = kUnlimited};
  std::optional<std::string> prompt;
  std::optional<uint64_t> seed;
  bool raw = false;
};

// Line editing and the width of characters need a UTF-8 locale, which a bare system does not set.
void use_utf8() {
  std::setlocale(LC_CTYPE, "");
  if (std::string_view(nl_langinfo(CODESET)) == "UTF-8") return;
  if (!std::setlocale(LC_CTYPE, "C.UTF-8")) std::setlocale(LC_CTYPE, "en_US.UTF-8");
}

// What templates, tokenizers and saved conversations take for granted.
Status check_text(const std::string& text, const char* flag) {
  if (utf8::valid(text)) return {};
  return Error{ErrorKind::usage, "invalid_utf8", "the text is not valid UTF-8", flag};
}

// The prompt of a one-shot run: a document from standard input, if there is one, before the words of -p.
Result<std::string> one_shot_prompt(Flags& flags) {
  std::string document;
  if (isatty(STDIN_FILENO) != 1) {
    MARTLET_ASSIGN(document, read_text_file("-"));
  }
  if (flags.prompt) {
    const bool apart = !document.empty() && !flags.raw;
    return document + (apart ? "\n\n" : "") + *flags.prompt;
  }
  if (!document.empty()) return document;
  if (flags.raw)
    return Error{ErrorKind::usage, "empty_prompt", "there is nothing to complete: give -p or standard input", "--raw"};
  flags.chat.max_tokens = std::min(flags.chat.max_tokens, kSampleTokens);
  std::fprintf(stderr, "%s\n", kSampleQuestion);
  return std::string(kSampleQuestion);
}

Result<std::vector<Token>> encode(const Loaded& model, const Flags& flags, const std::string& prompt) {
  if (!flags.raw) {
    if (!model.chat_template) return Error(model.chat_template.error());
    boost::json::array messages;
    if (!flags.chat.system.empty()) messages.push_back({{"role", "system"}, {"content", flags.chat.system}});
    messages.push_back({{"role", "user"}, {"content", prompt}});
    return encode_chat(**model.chat_template, *model.tokenizer,
                       {{"messages", messages}, {"add_generation_prompt", true}});
  }
  std::vector<Token> tokens;
  if (model.tokenizer->adds_bos()) tokens.push_back(model.tokenizer->bos());
  model.tokenizer->encode(prompt, {}, tokens);
  return tokens;
}

// Says so when less than the usual context fits, and what the engine has to say.
Result<Loaded> load_aloud(LoadOptions options) {
  const auto say = [](const std::string& note) { std::fprintf(stderr, "note: %s\n", note.c_str()); };
  options.engine.note = say;
  MARTLET_ASSIGN(Loaded model, load(options));
  if (const std::string note = fit_note(model.engine->plan()); !note.empty()) say(note);
  return model;
}

Status answer_once(const Loaded& model, const Flags& flags, const std::string& prompt) {
  MARTLET_ASSIGN(std::vector<Token> tokens, encode(model, flags, prompt));
  AnswerWriter writer(!flags.raw);
  Result<Answer> answer = generate(model, make_request(model, std::move(tokens), flags.chat), flags.raw,
                                   [&](std::string_view piece) { writer.push(piece); });
  writer.finish();
  if (!answer) return std::move(answer.error());
  if (std::ferror(stdout)) return {};  // told at the end of the program
  const Style style = style_of(STDERR_FILENO);
  std::fprintf(stderr, "%s%s%s\n", style.dim, answer->summary().c_str(), style.plain);
  if (answer->interrupted) std::exit(130);
  return {};
}

Status run(Flags& flags) {
  use_utf8();
  MARTLET_TRY(apply_draft_flags(flags.draft, flags.load.engine));
  MARTLET_TRY(check_text(flags.prompt.value_or(""), "--prompt"));
  MARTLET_TRY(check_text(flags.chat.system, "--system"));
  flags.chat.sampling.seed = flags.seed;
  const bool interactive = !flags.prompt && isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1;
  if (interactive && flags.raw)
    return Error{ErrorKind::usage, "empty_prompt", "a plain completion needs a prompt: give -p or standard input",
                 "--raw"};
  flags.load.engine.max_sequences = 1;
  if (!interactive) {
    MARTLET_ASSIGN(const std::string prompt, one_shot_prompt(flags));
    MARTLET_ASSIGN(const Loaded model, load_aloud(flags.load));
    return answer_once(model, flags, prompt);
  }
  int code = 0;
  {
    MARTLET_ASSIGN(const Loaded model, load_aloud(flags.load));
    if (!model.chat_template) return Error(model.chat_template.error());
    code = chat(model, flags.chat);
  }
  if (code != 0) std::exit(code);
  return {};
}

void add_sampling(CLI::App& app, Flags& flags) {
  SamplingParameters& sampling = flags.chat.sampling;
  app.add_option("--temperature", sampling.temperature, "0 always takes the likeliest token; higher is more varied")
      ->capture_default_str();
  app.add_option("--top-k", sampling.top_k, "Draw from the K likeliest tokens; 0: from all")->capture_default_str();
  app.add_option("--top-p", sampling.top_p, "Draw from the likeliest tokens that make up this probability")
      ->capture_default_str();
  app.add_option("--min-p", sampling.min_p, "Draw from tokens at least this likely, as a share of the likeliest one")
      ->capture_default_str();
  app.add_option("--seed", flags.seed, "Makes a drawn answer repeatable")
      ->check(whole_number(0, std::numeric_limits<uint64_t>::max()));
  app.add_option("-n,--max-tokens", flags.chat.max_tokens,
                 "Longest answer in tokens; without it, what the context holds")
      ->check(CLI::Range(1, kUnlimited));
}

}  // namespace

Action define_run(CLI::App& app) {
  const auto flags = std::make_shared<Flags>();
  app.add_option("model", flags->load.model, "A .gguf file, an alias, or hf:owner/repository[:file]; default: smollm2");
  app.add_option("-p,--prompt", flags->prompt,
                 "Answer this once; standard input, if it is no terminal, is a document before it");
  CLI::Option* raw =
      app.add_flag("--raw", flags->raw, "Complete the prompt as it is, without the model's chat template");
  app.add_option("--system", flags->chat.system, "System prompt")->excludes(raw);
  add_sampling(app, *flags);
  add_memory_flags(app, flags->load.engine);
  app.add_option("--backend", flags->load.backend, kBackendHelp)->capture_default_str();
  app.add_flag("--invariant", flags->load.invariant, kInvariantHelp);
  add_cache_type(app, flags->load.engine.cache_type);
  app.add_option("--threads", flags->load.threads, "Worker threads; 0: one for each physical core")
      ->check(CLI::Range(0, 1024));
  add_draft_flags(app, flags->draft);
  return [flags] { return run(*flags); };
}

}  // namespace martlet::cli
