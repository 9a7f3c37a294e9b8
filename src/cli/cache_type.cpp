#include "cli/cache_type.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

namespace martlet::cli {

void add_cache_type(CLI::App& app, CacheType& type) {
  // f32 is for tests: it says the same as f16 in twice the memory.
  const std::vector<std::string> offered{"f16", "bf16", "q8", "fp8", "q4"};
  const auto set = [&type](const std::string& name) {
    type = static_cast<CacheType>(std::ranges::find(kCacheTypeNames, name) - std::begin(kCacheTypeNames));
  };
  app.add_option_function<std::string>(
         "--cache-type", set,
         "How keys and values are kept; q8, fp8 (cuda) and q4 (cpu) take less memory at a small "
         "loss")
      ->check(CLI::IsMember(offered))
      ->default_str(std::string(name_of(type)));
}

}  // namespace martlet::cli
