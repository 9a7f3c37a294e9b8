#pragma once

#include <string>

#include "cli/load.h"

namespace martlet::cli {

struct ChatOptions {
  std::string system;  // empty: none
  SamplingParameters sampling;
  int32_t max_tokens = 0;  // of each answer
};

// The request that continues `prompt` under these options, with the model's own stop tokens.
Request make_request(const Loaded& model, std::vector<Token> prompt, const ChatOptions& options);

// Talks on the terminal until the user leaves. Returns the process exit code: 0, or 130 after Ctrl-C twice.
int chat(const Loaded& model, const ChatOptions& options);

}  // namespace martlet::cli
