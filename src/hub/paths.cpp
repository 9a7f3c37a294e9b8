#include "hub/paths.h"

#include <pwd.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <initializer_list>
#include <utility>

namespace martlet {
namespace {

namespace fs = std::filesystem;

struct Candidate {
  const char* variable;
  const char* below;  // appended to the variable's value
};

// Without HOME (some containers and services) the user's entry says where; a relative path would be another place in
// every folder.
fs::path home_directory() {
  const std::string home = environment("HOME");
  if (!home.empty()) return home;
  const passwd* user = getpwuid(getuid());
  return user && user->pw_dir && *user->pw_dir ? user->pw_dir : "/";
}

// The first variable that is set decides; otherwise `fallback` in the home directory.
fs::path first_of(std::initializer_list<Candidate> candidates, const char* fallback) {
  for (const Candidate& candidate : candidates) {
    const std::string value = environment(candidate.variable);
    if (!value.empty()) return *candidate.below ? fs::path(value) / candidate.below : fs::path(value);
  }
  return home_directory() / fallback;
}

fs::path hub_home() {
  return first_of({{"HF_HOME", ""}, {"XDG_CACHE_HOME", "huggingface"}}, ".cache/huggingface");
}

std::string trimmed(std::string text) {
  const char* blanks = " \t\r\n";
  text.erase(0, std::min(text.find_first_not_of(blanks), text.size()));
  text.erase(text.find_last_not_of(blanks) + 1);
  return text;
}

}  // namespace

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

fs::path store_directory() {
  return first_of({{"MARTLET_HOME", ""}, {"XDG_DATA_HOME", "martlet"}}, ".local/share/martlet");
}

fs::path state_directory() {
  return first_of({{"MARTLET_HOME", "state"}, {"XDG_STATE_HOME", "martlet"}}, ".local/state/martlet");
}

fs::path hub_cache_directory() {
  const std::string cache = environment("HF_HUB_CACHE");
  return cache.empty() ? hub_home() / "hub" : fs::path(cache);
}

std::string hub_endpoint() {
  std::string endpoint = environment("HF_ENDPOINT");
  if (endpoint.empty()) endpoint = "https://huggingface.co";
  while (endpoint.ends_with('/')) endpoint.pop_back();
  return endpoint;
}

std::string hub_token() {
  std::string token = trimmed(environment("HF_TOKEN"));
  if (!token.empty()) return token;
  const std::string path = environment("HF_TOKEN_PATH");
  std::ifstream file(path.empty() ? hub_home() / "token" : fs::path(path));
  std::getline(file, token);
  return trimmed(token);
}

}  // namespace martlet
