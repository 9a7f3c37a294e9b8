#include <cstdio>
#include <vector>

#include "base/error.h"
#include "base/mapped_file.h"
#include "cli/command.h"
#include "cli/environment.h"

namespace martlet::cli {
namespace {

struct Row {
  const char* name;
  const char* summary;
  Define define;
};

const std::vector<Row>& rows() {
  static const std::vector<Row> table = {
#define MARTLET_COMMAND(name, summary) {#name, summary, define_##name},
#include "cli/commands.def"
#undef MARTLET_COMMAND
  };
  return table;
}

int fail(const Error& error) {
  std::fprintf(stderr, "%s\n", error.line().c_str());
  return exit_code(error.kind);
}

}  // namespace

int main(int argc, char** argv) {
  guard_mapped_files();
  CLI::App app("Martlet runs large language models on this machine.", "martlet");
  app.require_subcommand(1);
  app.set_version_flag("--version", MARTLET_VERSION);
  Action action;
  for (const Row& row : rows()) {
    std::string name = row.name;
    if (name.back() == '_') name.pop_back();  // `template` is a word of C++
    CLI::App* command = app.add_subcommand(name, row.summary);
    Action defined = row.define(*command);
    mirror_environment(*command);
    command->callback([&action, defined] { action = defined; });
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app.exit(e);  // --help, --version
    return fail({ErrorKind::usage, "usage", std::string(e.what()) + "; see martlet --help", ""});
  }
  const Status status = action();
  return status ? 0 : fail(status.error());
}

}  // namespace martlet::cli
