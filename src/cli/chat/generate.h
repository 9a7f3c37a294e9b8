#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "cli/load.h"

namespace martlet::cli {

struct Answer {
  std::string text;
  Finish finish;
  bool interrupted = false;                     // by Ctrl-C; `text` is what there was
  double first_token_seconds = 0, seconds = 0;  // from the submission of the request

  // "TTFT 0.08 s, prefill 412 tokens/s (38 tokens), decode 118 tokens/s (64 tokens), effective 104 tokens/s"
  std::string summary() const;
};

// Runs one request and hands its text to `on_text`, whole UTF-8 only, on the calling thread. `continues`: the text
// continues the prompt's own. Errors: those of Engine::submit and of the step.
Result<Answer> generate(const Loaded& model, Request request, bool continues,
                        const std::function<void(std::string_view)>& on_text);

}  // namespace martlet::cli
