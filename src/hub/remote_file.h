#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "hub/download.h"
#include "hub/manifest.h"
#include "net/download.h"

namespace martlet {

// One file on the hub, looked up: what it must be, and where its bytes are.
struct RemoteFile {
  std::string url;  // on the hub itself, which redirects to where the bytes are
  uint64_t bytes = 0;
  std::string sha256;
};

// Asks the hub about `file` at `url`: its digest (X-Linked-Etag, else the manifest's, else the ETag) and its size.
// Where headers and manifest both speak, they must agree. Errors: ErrorKind::network, "invalid_digest",
// "source_changed".
Result<RemoteFile> look_up(HttpClient& client, const std::string& url, const ManifestFile& file);

// Shared by the connections to one file: they must all be served the same bytes.
struct SourceState {
  RemoteFile file;
  std::mutex mutex;
  std::string redirected;  // where the hub last sent us; empty: ask it
  std::string etag;        // of the first answer
};

// Reads ranges of a file on the hub over one connection.
class HttpSource final : public Source {
 public:
  HttpSource(std::shared_ptr<Endpoint> endpoint, std::shared_ptr<SourceState> state);
  Status read(uint64_t begin, uint64_t end, FunctionRef<Status(std::span<const std::byte>)> sink) override;

 private:
  Status read_from(const std::string& url, uint64_t begin, uint64_t end,
                   FunctionRef<Status(std::span<const std::byte>)> sink);
  Status check_head(const FetchResponse& head, uint64_t begin, uint64_t end);

  HttpClient client_;
  std::shared_ptr<SourceState> state_;
};

}  // namespace martlet
