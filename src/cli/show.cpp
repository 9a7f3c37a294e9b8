#include <unistd.h>

#include <boost/json/serialize.hpp>
#include <cstdio>
#include <memory>

#include "base/printable.h"
#include "cli/command.h"
#include "cli/describe.h"
#include "hub/resolve.h"

namespace martlet::cli {
namespace {

struct Flags {
  std::string model;
  bool json = false, metadata = false, chat_template = false;
};

void print(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
}

void print_json(const ModelFile& file, bool metadata) {
  boost::json::object out = to_json(summarize(file));
  if (metadata) out["metadata"] = metadata_to_json(file);
  print(boost::json::serialize(out) + "\n");
}

// As it stands in the file when it goes to a program. On a terminal the escape sequences of a hostile file stay inert.
Status print_template(const ModelFile& file) {
  const auto text = file.string("tokenizer.chat_template");
  if (!text) return Error{ErrorKind::model, "no_chat_template", "the model has no chat template", file.path()};
  std::string out(*text);
  if (isatty(STDOUT_FILENO) == 1) {
    out = printable(out, "\n\t") + "\n";
  }
  print(out);
  return {};
}

Status show(const Flags& flags) {
  MARTLET_ASSIGN(const std::string path, resolve_model(flags.model));
  MARTLET_ASSIGN(const std::shared_ptr<const ModelFile> file, ModelFile::open(path));
  const Style style = style_of(STDOUT_FILENO);
  if (flags.json) {
    print_json(*file, flags.metadata);
  } else if (flags.chat_template) {
    return print_template(*file);
  } else {
    print(describe(summarize(*file), style));
    if (flags.metadata) print("\n" + describe_metadata(*file, style));
  }
  return {};
}

}  // namespace

Action define_show(CLI::App& app) {
  const auto flags = std::make_shared<Flags>();
  app.add_option("model", flags->model, "A .gguf file (any part of a split one), an alias, or hf:owner/repository")
      ->required();
  app.add_flag("--metadata", flags->metadata, "Also list all metadata of the file");
  CLI::Option* json = app.add_flag("--json", flags->json, "Print one JSON object, for programs");
  app.add_flag("--template", flags->chat_template, "Print the chat template, whole, and nothing else")->excludes(json);
  return [flags] { return show(*flags); };
}

}  // namespace martlet::cli
