#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <memory>

#include "base/printable.h"
#include "cli/command.h"
#include "cli/progress.h"
#include "hub/local.h"

namespace martlet::cli {
namespace {

struct Flags {
  std::string model;
  bool yes = false;
};

void print(const std::vector<LocalModel>& models) {
  for (const LocalModel& model : models)
    std::fprintf(stderr, "%s (%s)\n", printable(model.name).c_str(), human_bytes(model.bytes).c_str());
}

Status confirm(const std::vector<LocalModel>& models) {
  if (!isatty(STDIN_FILENO))
    return Error{ErrorKind::usage, "not_confirmed",
                 "removing a model asks first, and there is no terminal to ask on: give --yes", "--yes"};
  print(models);
  std::fputs("Remove? [y/N] ", stderr);
  std::string answer;
  std::getline(std::cin, answer);
  if (answer == "y" || answer == "Y" || answer == "yes") return {};
  return Error{ErrorKind::usage, "not_confirmed", "nothing was removed", ""};
}

Status remove(const Flags& flags) {
  const std::vector<LocalModel> models = find_local_models(flags.model);
  if (models.empty())
    return Error{ErrorKind::io, "model_not_found", "no such model in the store or the hub's cache: see `martlet list`",
                 flags.model};
  if (!flags.yes) MARTLET_TRY(confirm(models));
  for (const LocalModel& model : models) MARTLET_TRY(remove_local_model(model));
  return {};
}

}  // namespace

Action define_rm(CLI::App& app) {
  const auto flags = std::make_shared<Flags>();
  app.add_option("model", flags->model, "A model as `martlet list` names it; without its file, all of a repository")
      ->required();
  app.add_flag("--yes", flags->yes, "Do not ask");
  return [flags] { return remove(*flags); };
}

}  // namespace martlet::cli
