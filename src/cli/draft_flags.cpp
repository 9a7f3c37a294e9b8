#include "cli/draft_flags.h"

#include "file/model_file.h"
#include "hub/resolve.h"

namespace martlet::cli {

void add_draft_flags(CLI::App& app, DraftFlags& flags) {
  app.add_option(
      "--draft", flags.draft,
      "Draft tokens ahead and verify them, which changes speed and no text: 'ngram' looks for repetitions; a "
      "small model of the same vocabulary (file, alias or reference) guesses");
  app.add_option("--draft-history", flags.history,
                 "With --draft ngram: tokens of earlier answers, to the same API key, in which to look too")
      ->capture_default_str();
  app.add_option("--speculation", flags.speculation,
                 "How far to draft: auto (what pays by the measured costs), window (3 to 6, off below 40 % accepted), "
                 "fixed:K, off")
      ->capture_default_str();
}

Status apply_draft_flags(const DraftFlags& flags, EngineOptions& options) {
  Result<Speculation> rule = parse_speculation(flags.speculation);
  if (!rule) return Error{ErrorKind::usage, "invalid_value", rule.error().text, "--speculation"};
  options.speculation = *rule;
  options.ngram_history = flags.history;
  if (flags.draft.empty()) {
    const bool asks = rule->mode == Speculation::Mode::window || rule->mode == Speculation::Mode::fixed;
    if (asks) return Error{ErrorKind::usage, "no_drafter", "needs --draft MODEL or --draft ngram", "--speculation"};
    return {};
  }
  if (flags.draft == "ngram") {
    options.ngram = true;
    return {};
  }
  MARTLET_ASSIGN(const std::string path, resolve_model(flags.draft));
  MARTLET_ASSIGN(options.draft_model, ModelFile::open(path));
  return {};
}

}  // namespace martlet::cli
