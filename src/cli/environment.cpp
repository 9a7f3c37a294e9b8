#include "cli/environment.h"

#include <algorithm>
#include <cctype>
#include <string>

namespace martlet::cli {

namespace {

bool stands_in(const CLI::Option& option, std::span<char* const> words) {
  const auto is_option = [&](std::string_view word) {
    const auto& names = option.get_lnames();
    return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
      return word.starts_with("--") && word.substr(2, word.find('=') - 2) == name;
    });
  };
  return std::any_of(words.begin(), words.end(), is_option);
}

void mirror(CLI::App& command, std::span<char* const> words) {
  for (CLI::Option* option : command.get_options()) {
    if (option->get_lnames().empty() || option == command.get_help_ptr()) continue;
    const auto& others = option->get_excludes();
    if (std::any_of(others.begin(), others.end(), [&](const CLI::Option* other) { return stands_in(*other, words); })) {
      continue;
    }
    std::string name = "MARTLET_";
    for (const unsigned char c : option->get_lnames().front())
      name += c == '-' ? '_' : static_cast<char>(std::toupper(c));
    option->envname(name);
  }
}

}  // namespace

void mirror_environment(CLI::App& command, std::span<char* const> words) {
  command.preparse_callback([&command, words](size_t) { mirror(command, words); });
  for (CLI::App* part : command.get_subcommands({})) mirror_environment(*part, words);
}

}  // namespace martlet::cli
