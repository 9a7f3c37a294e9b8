#include "cli/bench_report.h"

#include <cstdio>
#include <memory>

#include "base/printable.h"
#include "bench/comparison.h"
#include "bench/recorder.h"
#include "bench/report.h"

namespace martlet::cli {
namespace {

struct Flags {
  std::string folder, out;
  std::vector<std::string> compare;
};

Status compare(const Flags& flags) {
  MARTLET_ASSIGN(const bench::RunFile before, bench::read_result(flags.compare[0]));
  MARTLET_ASSIGN(const bench::RunFile after, bench::read_result(flags.compare[1]));
  MARTLET_ASSIGN(const std::string text, bench::text_comparison(before, after));
  std::fputs(printable(text, "\n").c_str(), stdout);
  return {};
}

Status run(const Flags& flags) {
  if (!flags.compare.empty()) return compare(flags);
  if (flags.folder.empty())
    return Error{ErrorKind::usage, "usage", "name the folder of results, or two results with --compare", "DIR"};
  MARTLET_ASSIGN(const std::vector<bench::RunFile> files, bench::read_results(flags.folder));
  MARTLET_ASSIGN(const std::string page, bench::html_report(files));
  const std::string path = flags.out.empty() ? flags.folder + "/report.html" : flags.out;
  MARTLET_TRY(bench::write_whole(path, page));
  std::printf("%s\n", printable(path).c_str());
  return {};
}

}  // namespace

Action define_bench_report(CLI::App& app) {
  const auto flags = std::make_shared<Flags>();
  CLI::Option* folder = app.add_option("folder", flags->folder, "What --out of `bench serve` named");
  app.add_option("--out", flags->out, "The page to write; absent: report.html in the folder")->needs(folder);
  app.add_option("--compare", flags->compare, "Two results (*.json): the change from the first to the second")
      ->expected(2)
      ->excludes(folder);
  return [flags] { return run(*flags); };
}

}  // namespace martlet::cli
