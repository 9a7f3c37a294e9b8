#include "cli/environment.h"

#include <cctype>
#include <string>

namespace martlet::cli {

void mirror_environment(CLI::App& command) {
  for (CLI::Option* option : command.get_options()) {
    if (option->get_lnames().empty() || option == command.get_help_ptr()) continue;
    std::string name = "MARTLET_";
    for (const unsigned char c : option->get_lnames().front())
      name += c == '-' ? '_' : static_cast<char>(std::toupper(c));
    option->envname(name);
  }
}

}  // namespace martlet::cli
