#include "hub/local.h"

#include <sys/stat.h>

#include <algorithm>
#include <set>

#include "hub/alias.h"
#include "hub/cache.h"
#include "hub/choose.h"
#include "hub/paths.h"
#include "hub/reference.h"

namespace martlet {
namespace {

namespace fs = std::filesystem;

// Folders and files that cannot be read are skipped everywhere here: a list shows what can be used.
std::vector<fs::path> entries_of(const fs::path& folder) {
  std::error_code ignored;
  std::vector<fs::path> entries;
  for (fs::directory_iterator entry(folder, ignored), end; entry != end; entry.increment(ignored))
    entries.push_back(entry->path());
  std::ranges::sort(entries);
  return entries;
}

void measure(LocalModel& model) {
  for (const fs::path& file : model.files) {
    struct stat status;
    if (stat(file.c_str(), &status) != 0) continue;
    model.bytes += static_cast<uint64_t>(status.st_size);
    model.modified = std::max(model.modified, std::chrono::system_clock::from_time_t(status.st_mtime));
  }
}

std::vector<std::string> file_names(const std::vector<fs::path>& paths) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const fs::path& path : paths) {
    if (fs::is_regular_file(path, ignored)) names.push_back(path.filename().string());
  }
  return names;
}

std::string store_name(const fs::path& path) {
  for (const Alias& alias : aliases()) {
    if (alias.path() == path) return std::string(alias.name);
  }
  return path.string();
}

void list_store(std::vector<LocalModel>& models) {
  const fs::path folder = store_directory() / "models";
  for (const ModelFiles& files : list_models(file_names(entries_of(folder)))) {
    LocalModel model{.name = store_name(folder / files.front()), .files = {}};
    for (const std::string& file : files) model.files.push_back(folder / file);
    models.push_back(std::move(model));
  }
}

// models--owner--repository -> hf:owner/repository; empty for folders that are something else.
std::string repository_name(const fs::path& folder) {
  const std::string text = folder.filename().string();
  constexpr std::string_view kPrefix = "models--";
  const size_t middle = text.find("--", kPrefix.size());
  if (!text.starts_with(kPrefix) || middle == std::string::npos) return "";
  const auto reference =
      parse_hub_reference(text.substr(kPrefix.size(), middle - kPrefix.size()) + "/" + text.substr(middle + 2));
  return reference ? "hf:" + reference->name() : "";
}

void list_cache(std::vector<LocalModel>& models) {
  for (const fs::path& folder : entries_of(hub_cache_directory())) {
    const std::string name = repository_name(folder);
    if (name.empty()) continue;
    const CachedRepository repository(folder);
    for (const ModelFiles& files : list_models(repository.files())) {
      LocalModel model{.name = name + ":" + files.front(), .files = {}};
      for (const std::string& file : files) model.files.push_back(repository.snapshot() / file);
      models.push_back(std::move(model));
    }
  }
}

// The blobs that anything in the repository's snapshots still links to.
std::set<fs::path> linked_blobs(const fs::path& snapshots) {
  std::set<fs::path> blobs;
  std::error_code ignored;
  for (fs::recursive_directory_iterator entry(snapshots, ignored), end; entry != end; entry.increment(ignored)) {
    if (entry->is_symlink(ignored)) blobs.insert(fs::weakly_canonical(entry->path(), ignored));
  }
  return blobs;
}

void remove_empty_folders(fs::path folder, const fs::path& top) {
  std::error_code error;
  while (folder != top && fs::is_empty(folder, error) && !error && fs::remove(folder, error))
    folder = folder.parent_path();
}

Status remove_file(const fs::path& path) {
  std::error_code error;
  fs::remove(path, error);
  if (error)
    return Error{ErrorKind::io, "io_error", "the file cannot be removed: check the permissions", path.string()};
  return {};
}

Status remove_cached(const fs::path& link, const fs::path& repository) {
  std::error_code error;
  const fs::path blob = fs::weakly_canonical(link, error);
  const bool is_link = fs::is_symlink(link, error);
  const fs::path snapshots = repository / "snapshots";
  MARTLET_TRY(remove_file(link));
  // Only what lies in this repository's own folder of blobs is the cache's to remove.
  const bool ours = blob.parent_path() == fs::weakly_canonical(repository / "blobs", error);
  if (is_link && ours && !linked_blobs(snapshots).contains(blob)) MARTLET_TRY(remove_file(blob));
  remove_empty_folders(link.parent_path(), snapshots);
  return {};
}

// A repository without snapshots is only a skeleton; partial downloads keep it.
void remove_skeleton(const fs::path& repository) {
  std::error_code error;
  const bool used = !fs::is_empty(repository / "snapshots", error) || !fs::is_empty(repository / "blobs", error);
  if (!used && !error) fs::remove_all(repository, error);
}

}  // namespace

std::vector<LocalModel> list_local_models() {
  std::vector<LocalModel> models;
  list_store(models);
  list_cache(models);
  for (LocalModel& model : models) measure(model);
  std::ranges::sort(models, {}, &LocalModel::name);
  return models;
}

std::vector<LocalModel> find_local_models(const std::string& name) {
  std::vector<LocalModel> found;
  for (LocalModel& model : list_local_models()) {
    const bool is_file = std::ranges::find(model.files, fs::path(name)) != model.files.end();
    const bool in_repository = name.starts_with("hf:") && model.name.starts_with(name + ":");
    if (model.name == name || is_file || in_repository) found.push_back(std::move(model));
  }
  return found;
}

Status remove_local_model(const LocalModel& model) {
  if (!model.name.starts_with("hf:")) {
    for (const fs::path& file : model.files) MARTLET_TRY(remove_file(file));
    return {};
  }
  MARTLET_ASSIGN(const HubReference reference, parse_hub_reference(model.name));
  const CachedRepository repository(reference);
  for (const fs::path& file : model.files) MARTLET_TRY(remove_cached(file, repository.root()));
  remove_skeleton(repository.root());
  return {};
}

}  // namespace martlet
