#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <exception>
#include <new>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/heap.h"
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

// A file opened by the program must not become its standard output because that was closed.
void open_standard_streams() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(descriptor, F_GETFD) < 0 && errno == EBADF) open("/dev/null", O_RDWR);  // takes the lowest free one
  }
}

Status run(const Action& action) {
  try {
    return action();
  } catch (const std::bad_alloc&) {
    return Error{ErrorKind::memory, "out_of_memory", "there is not enough memory for this", ""};
  } catch (const std::system_error& e) {
    return Error{ErrorKind::io, "system_error", std::string("the system refused something: ") + e.what(), ""};
  } catch (const std::exception& e) {
    return Error{ErrorKind::internal, "internal_error", std::string("an unexpected error: ") + e.what(), ""};
  }
}

Status check_output() {
  if (std::fflush(stdout) == 0 && !std::ferror(stdout)) return {};
  return Error{ErrorKind::io, "io_error", "the result could not be written", "stdout"};
}

int run_command_line(int argc, char** argv) {
  open_standard_streams();
  return_large_blocks();
  ::signal(SIGPIPE, SIG_IGN);  // a reader that left is an error of a write, not a reason to die
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
    mirror_environment(*command, {argv, static_cast<size_t>(argc)});
    command->callback([&action, defined] { action = defined; });
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) {  // --help, --version
      app.exit(e);
      const Status written = check_output();
      return written ? 0 : fail(written.error());
    }
    const auto commands = app.get_subcommands();
    if (commands.empty() && argc > 1 && argv[1][0] != '-')
      return fail({ErrorKind::usage, "usage", "there is no such command; see martlet --help", argv[1]});
    const std::string help = commands.empty() ? "martlet --help" : "martlet " + commands[0]->get_name() + " --help";
    return fail({ErrorKind::usage, "usage", std::string(e.what()) + "; see " + help, ""});
  }
  const Status status = run(action);
  if (!status) return fail(status.error());
  const Status written = check_output();
  return written ? 0 : fail(written.error());
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run_command_line(argc, argv);
  } catch (const std::bad_alloc&) {
    std::fputs("error[out_of_memory]: there is not enough memory for this\n", stderr);
    return exit_code(ErrorKind::memory);
  }
}

}  // namespace martlet::cli
