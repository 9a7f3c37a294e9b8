#include "hub/pull.h"

#include <span>
#include <utility>

#include "hub/cache.h"
#include "hub/manifest.h"
#include "hub/remote_file.h"

namespace martlet {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxManifestBytes = 16 << 20;

class Pull {
 public:
  Pull(const HubReference& reference, const PullOptions& options, std::shared_ptr<Endpoint> endpoint)
      : reference_(reference),
        options_(options),
        files_(options.files ? *options.files : real_file_system()),
        endpoint_(std::move(endpoint)),
        client_(endpoint_),
        repository_(reference) {}

  Result<fs::path> run();

 private:
  struct Wanted {
    std::string path;
    RemoteFile remote;
  };

  Result<std::vector<Wanted>> look_up_all();
  Status fetch(const Wanted& wanted);
  Status link(const Wanted& wanted);
  Status write_reference();
  fs::path snapshot() const { return repository_.root() / "snapshots" / commit_; }

  const HubReference& reference_;
  const PullOptions& options_;
  FileSystem& files_;
  std::shared_ptr<Endpoint> endpoint_;
  HttpClient client_;
  CachedRepository repository_;
  std::string commit_;
};

Result<fs::path> Pull::run() {
  MARTLET_ASSIGN(const std::vector<Wanted> all, look_up_all());
  MARTLET_TRY(files_.make_folders(repository_.root() / "blobs"));
  for (const Wanted& wanted : all) {
    MARTLET_TRY(fetch(wanted));
    MARTLET_TRY(link(wanted));
  }
  MARTLET_TRY(write_reference());
  return snapshot() / all.front().path;
}

Result<std::vector<Pull::Wanted>> Pull::look_up_all() {
  const std::string name = reference_.name();
  MARTLET_ASSIGN(
      const std::string text,
      client_.fetch_text(endpoint_->url + "/api/models/" + name + "/revision/main?blobs=true", kMaxManifestBytes));
  MARTLET_ASSIGN(const Manifest manifest, parse_manifest(text));
  commit_ = manifest.commit;
  const std::vector<ModelFiles> models = list_models(manifest.paths());
  Result<ModelFiles> chosen = choose_model(models, reference_.file);
  if (!chosen) {
    if (chosen.error().code == "ambiguous_file" && options_.on_choices) options_.on_choices(models);
    if (chosen.error().where.empty()) chosen.error().where = name;
    return std::move(chosen.error());
  }
  std::vector<Wanted> all;
  for (const std::string& path : *chosen) {
    const std::string url = endpoint_->url + "/" + name + "/resolve/" + commit_ + "/" + encode_path(path);
    MARTLET_ASSIGN(RemoteFile remote, look_up(client_, url, *manifest.find(path)));
    all.push_back({path, std::move(remote)});
  }
  return all;
}

Status Pull::fetch(const Wanted& wanted) {
  const fs::path blob = repository_.blob(wanted.remote.sha256);
  std::error_code absent;
  if (fs::file_size(blob, absent) == wanted.remote.bytes && !absent) return {};  // its name vouches for it
  const auto state = std::make_shared<SourceState>();
  state->file = wanted.remote;
  const auto connect = [&]() -> std::unique_ptr<Source> { return std::make_unique<HttpSource>(endpoint_, state); };
  const Download what{wanted.remote.bytes, wanted.remote.sha256, blob, options_.connections};
  return download(
      what, connect, files_, options_.on_file ? options_.on_file(wanted.path) : [](Stage, uint64_t, uint64_t) {});
}

Status Pull::link(const Wanted& wanted) {
  const fs::path path = snapshot() / wanted.path;
  MARTLET_TRY(files_.make_folders(path.parent_path()));
  return files_.link(repository_.blob(wanted.remote.sha256).lexically_relative(path.parent_path()), path);
}

// Last, so that refs/main only ever names a snapshot that holds the model.
Status Pull::write_reference() {
  if (repository_.commit() == commit_) return {};
  const fs::path path = repository_.root() / "refs" / "main";
  MARTLET_TRY(files_.make_folders(path.parent_path()));
  fs::path fresh = path;
  fresh += ".new";
  {
    MARTLET_ASSIGN(const std::unique_ptr<File> file, files_.open(fresh));
    MARTLET_TRY(file->resize(0));
    MARTLET_TRY(file->write(0, std::as_bytes(std::span(commit_))));
    MARTLET_TRY(file->sync());
  }
  return files_.rename(fresh, path);
}

}  // namespace

Result<fs::path> pull(const HubReference& reference, const PullOptions& options) {
  MARTLET_ASSIGN(std::shared_ptr<Endpoint> endpoint, Endpoint::create(options.endpoint, options.token));
  return Pull(reference, options, std::move(endpoint)).run();
}

}  // namespace martlet
