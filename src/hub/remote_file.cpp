#include "hub/remote_file.h"

#include <charconv>
#include <optional>

#include "hub/reference.h"

namespace martlet {
namespace {

constexpr uint64_t kMaxBytes = uint64_t{1} << 44;  // 16 TiB

Error network(const char* code, const char* text, const std::string& where) {
  return {ErrorKind::network, code, text, where};
}

Error changed(const std::string& where) {
  return network("source_changed", "the file at the source changed while it was read: pull again", where);
}

// W/"abc" -> abc
std::string plain_etag(std::string etag) {
  if (etag.starts_with("W/")) etag.erase(0, 2);
  if (etag.size() >= 2 && etag.front() == '"' && etag.back() == '"') etag = etag.substr(1, etag.size() - 2);
  return etag;
}

std::optional<uint64_t> number(const std::string& text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// The first of the sources that says something.
std::string digest_of(const FetchResponse& head, const ManifestFile& file) {
  const std::string linked = plain_etag(head.header("x-linked-etag"));
  if (!linked.empty()) return linked;
  return file.sha256.empty() ? plain_etag(head.header("etag")) : file.sha256;
}

uint64_t size_of(const FetchResponse& head, const ManifestFile& file) {
  const bool answered = head.status < 300;  // a redirect's Content-Length is that of its own page
  const std::optional<uint64_t> linked = number(head.header("x-linked-size"));
  return linked ? *linked : answered ? head.length().value_or(file.bytes) : file.bytes;
}

}  // namespace

Result<RemoteFile> look_up(HttpClient& client, const std::string& url, const ManifestFile& file) {
  MARTLET_ASSIGN(const FetchResponse head,
                 client.fetch(
                     {.url = url, .head = true, .follow_away = false}, [](const FetchResponse&) { return Status(); },
                     [](std::span<const std::byte>) { return Status(); }));
  RemoteFile remote{.url = url, .bytes = size_of(head, file), .sha256 = digest_of(head, file)};
  if (!is_hex(remote.sha256, 64))
    return network("invalid_digest", "the hub names no SHA-256 for the file, so it could not be verified", file.path);
  const bool agrees =
      (file.sha256.empty() || file.sha256 == remote.sha256) && (file.bytes == 0 || file.bytes == remote.bytes);
  if (!agrees) return changed(file.path);
  if (remote.bytes > kMaxBytes)
    return network("bad_response", "the hub says that the file is absurdly large", file.path);
  if (remote.bytes == 0)
    return network("bad_response", "the hub does not say how long the file is, or it is empty", file.path);
  return remote;
}

HttpSource::HttpSource(std::shared_ptr<Endpoint> endpoint, std::shared_ptr<SourceState> state)
    : client_(std::move(endpoint)), state_(std::move(state)) {}

Status HttpSource::read(uint64_t begin, uint64_t end, FunctionRef<Status(std::span<const std::byte>)> sink) {
  std::string url;
  {
    const std::lock_guard lock(state_->mutex);
    url = state_->redirected;
  }
  Status status = read_from(url.empty() ? state_->file.url : url, begin, end, sink);
  // A signed URL has run out: the hub makes a new one.
  if (status || (status.error().code != "unauthorized" && status.error().code != "not_found")) return status;
  return read_from(state_->file.url, begin, end, sink);
}

Status HttpSource::read_from(const std::string& url, uint64_t begin, uint64_t end,
                             FunctionRef<Status(std::span<const std::byte>)> sink) {
  const bool whole = begin == 0 && end == state_->file.bytes;
  FetchRequest request{.url = url};
  if (!whole) request.range = std::to_string(begin) + "-" + std::to_string(end - 1);
  uint64_t left = end - begin;
  MARTLET_TRY(client_.fetch(
      request, [&](const FetchResponse& head) { return check_head(head, begin, end); },
      [&](std::span<const std::byte> bytes) -> Status {
        if (bytes.size() > left) return changed(state_->file.url);
        left -= bytes.size();
        return sink(bytes);
      }));
  if (left > 0)
    return network("short_body", "the server sent fewer bytes than it was asked for: pull again", state_->file.url);
  return {};
}

Status HttpSource::check_head(const FetchResponse& head, uint64_t begin, uint64_t end) {
  const bool whole = begin == 0 && end == state_->file.bytes;
  const std::lock_guard lock(state_->mutex);
  if (head.status == 200) {
    if (!whole) return network("range_ignored", "the server only sends whole files", state_->file.url);
    if (head.length().value_or(end) != end) return changed(state_->file.url);
  } else {
    const std::string expected = "bytes " + std::to_string(begin) + "-" + std::to_string(end - 1) + "/";
    const std::string total = std::to_string(state_->file.bytes);
    const std::string range = head.header("content-range");
    if (head.status != 206 || !range.starts_with(expected) || (range != expected + total && range != expected + "*"))
      return changed(state_->file.url);
  }
  const std::string etag = head.header("etag");
  if (state_->etag.empty()) state_->etag = etag;
  if (state_->etag != etag) return changed(state_->file.url);
  if (head.url != state_->file.url) state_->redirected = head.url;
  return {};
}

}  // namespace martlet
