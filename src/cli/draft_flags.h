#pragma once

#include <memory>
#include <string>

#include <CLI/CLI.hpp>

#include "base/error.h"
#include "martlet/engine.h"

namespace martlet::cli {

// --draft, --draft-history and --speculation, as every command that runs a model takes them.
struct DraftFlags {
  std::string draft, speculation = "auto";
  int32_t history = 0;
};

void add_draft_flags(CLI::App& app, DraftFlags& flags);

// Opens what `flags` name into `options`. Errors: those of resolving and opening a model; ErrorKind::usage for a rule
// that is none, and for a rule without a drafter.
Status apply_draft_flags(const DraftFlags& flags, EngineOptions& options);

}  // namespace martlet::cli
