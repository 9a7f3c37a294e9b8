#include <boost/json.hpp>
#include <cstdio>
#include <ctime>
#include <memory>

#include "base/printable.h"
#include "base/utf8.h"
#include "cli/command.h"
#include "cli/progress.h"
#include "hub/local.h"

namespace martlet::cli {
namespace {

std::string format_time(std::chrono::system_clock::time_point time, const char* format, bool utc) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(time);
  std::tm fields{};
  if (utc) {
    gmtime_r(&seconds, &fields);
  } else {
    localtime_r(&seconds, &fields);
  }
  char text[32];
  return std::string(text, std::strftime(text, sizeof text, format, &fields));
}

void print_json(const std::vector<LocalModel>& models) {
  boost::json::array rows;
  for (const LocalModel& model : models) {
    boost::json::array files;
    for (const auto& file : model.files) files.emplace_back(utf8::replace_invalid(file.string()));
    rows.push_back({{"name", utf8::replace_invalid(model.name)},
                    {"bytes", model.bytes},
                    {"modified", format_time(model.modified, "%Y-%m-%dT%H:%M:%SZ", true)},
                    {"files", std::move(files)}});
  }
  std::printf("%s\n", boost::json::serialize(rows).c_str());
}

void print_table(const std::vector<LocalModel>& models) {
  size_t width = 0;
  for (const LocalModel& model : models) width = std::max(width, printable(model.name).size());
  for (const LocalModel& model : models) {
    std::printf("%-*s  %10s  %s\n", static_cast<int>(width), printable(model.name).c_str(),
                human_bytes(model.bytes).c_str(), format_time(model.modified, "%Y-%m-%d %H:%M", false).c_str());
  }
  if (models.empty()) std::fputs("No models yet: `martlet pull smollm2` fetches the default one.\n", stderr);
}

}  // namespace

Action define_list(CLI::App& app) {
  const auto json = std::make_shared<bool>(false);
  app.add_flag("--json", *json, "Print a JSON array, for programs");
  return [json]() -> Status {
    const std::vector<LocalModel> models = list_local_models();
    *json ? print_json(models) : print_table(models);
    return {};
  };
}

}  // namespace martlet::cli
