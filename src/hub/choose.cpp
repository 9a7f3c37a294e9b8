#include "hub/choose.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <map>
#include <optional>

namespace martlet {
namespace {

constexpr std::string_view kSuffix = ".gguf";
constexpr std::string_view kDefaultQuantization = "q4_k_m";

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

std::string_view file_name(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

struct Part {
  std::string stem;  // the path up to the part's number
  unsigned number, count;
};

bool five_digits(std::string_view text) {
  return text.size() == 5 && std::ranges::all_of(text, [](unsigned char c) { return std::isdigit(c) != 0; });
}

// "stem-00002-of-00005.gguf": the convention for split GGUF files.
std::optional<Part> parse_part(const std::string& path) {
  constexpr size_t kTail = sizeof("-00001-of-00002.gguf") - 1;
  if (path.size() <= kTail) return std::nullopt;
  const std::string_view tail = std::string_view(path).substr(path.size() - kTail);
  if (tail[0] != '-' || !five_digits(tail.substr(1, 5)) || tail.substr(6, 4) != "-of-" ||
      !five_digits(tail.substr(10, 5)))
    return std::nullopt;
  return Part{path.substr(0, path.size() - kTail),
              static_cast<unsigned>(std::atoi(std::string(tail.substr(1, 5)).c_str())),
              static_cast<unsigned>(std::atoi(std::string(tail.substr(10, 5)).c_str()))};
}

// True when `word` stands in `text` with no letter or digit beside it: Q4_K is not Q4_K_M, but "-" and "." end it.
bool holds_word(std::string_view text, std::string_view word) {
  const auto part_of_word = [&](size_t at) {
    return at < text.size() && (std::isalnum(static_cast<unsigned char>(text[at])) || text[at] == '_');
  };
  for (size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
    if ((at == 0 || !part_of_word(at - 1)) && !part_of_word(at + word.size())) return true;
  }
  return false;
}

std::vector<const ModelFiles*> of_quantization(const std::vector<ModelFiles>& models, std::string_view quantization) {
  std::vector<const ModelFiles*> found;
  for (const ModelFiles& model : models) {
    if (holds_word(lower(file_name(model.front())), quantization)) found.push_back(&model);
  }
  return found;
}

Error ambiguous() {
  return {ErrorKind::usage, "ambiguous_file", "several models fit: name one as hf:owner/repository:file", ""};
}

}  // namespace

std::vector<ModelFiles> list_models(std::span<const std::string> names) {
  std::map<std::string, ModelFiles> whole;
  std::map<std::pair<std::string, unsigned>, std::map<unsigned, std::string>> split;
  for (const std::string& name : names) {
    const std::string plain = lower(file_name(name));
    if (!plain.ends_with(kSuffix) || plain.starts_with("mmproj")) continue;
    if (const auto part = parse_part(name)) {
      split[{part->stem, part->count}][part->number] = name;
    } else {
      whole[name] = {name};
    }
  }
  for (const auto& [key, parts] : split) {
    if (parts.size() != key.second || parts.begin()->first != 1 || parts.rbegin()->first != key.second) continue;
    ModelFiles& files = whole[parts.begin()->second];
    for (const auto& [number, name] : parts) files.push_back(name);
  }
  std::vector<ModelFiles> models;
  for (auto& [name, files] : whole) models.push_back(std::move(files));
  return models;
}

Result<ModelFiles> choose_model(const std::vector<ModelFiles>& models, std::string_view wanted) {
  if (models.empty()) return Error{ErrorKind::model, "no_such_file", "the repository holds no complete GGUF model", ""};
  if (wanted.empty()) {
    if (models.size() == 1) return models.front();
    const auto found = of_quantization(models, kDefaultQuantization);
    return found.size() == 1 ? Result<ModelFiles>(*found.front()) : Result<ModelFiles>(ambiguous());
  }
  for (const ModelFiles& model : models) {
    if (std::ranges::find(model, wanted) != model.end()) return model;
  }
  const auto found = of_quantization(models, lower(wanted));
  if (found.size() == 1) return *found.front();
  if (found.size() > 1) return ambiguous();
  return Error{ErrorKind::model, "no_such_file", "the repository holds no GGUF model of that name",
               std::string(wanted)};
}

}  // namespace martlet
