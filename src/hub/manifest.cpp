#include "hub/manifest.h"

#include <algorithm>
#include <boost/json.hpp>

#include "hub/reference.h"

namespace martlet {
namespace {

namespace json = boost::json;

Error bad(const char* text, const std::string& where = "") {
  return {ErrorKind::network, "bad_manifest", text, where};
}

std::string text_of(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  return value && value->is_string() ? std::string(value->get_string()) : "";
}

uint64_t size_of(const json::object& object) {
  const json::value* value = object.if_contains("size");
  if (!value || !value->is_number()) return 0;
  boost::system::error_code error;
  const uint64_t size = value->to_number<uint64_t>(error);
  return error ? 0 : size;
}

Result<ManifestFile> parse_file(const json::value& value) {
  const json::object* object = value.if_object();
  if (!object) return bad("the hub's list of files is malformed");
  ManifestFile file{.path = text_of(*object, "rfilename"), .bytes = size_of(*object)};
  if (!is_safe_path(file.path)) return bad("the hub's list of files holds a path that leaves the repository");
  const json::value* lfs = object->if_contains("lfs");
  if (!lfs || !lfs->is_object()) return file;
  file.sha256 = text_of(lfs->get_object(), "sha256");
  if (file.sha256.empty()) file.sha256 = text_of(lfs->get_object(), "oid");
  if (!is_hex(file.sha256, 64))
    return Error{ErrorKind::network, "invalid_digest", "the hub's digest of a file is no SHA-256", file.path};
  if (const uint64_t size = size_of(lfs->get_object())) file.bytes = size;
  return file;
}

}  // namespace

std::vector<std::string> Manifest::paths() const {
  std::vector<std::string> paths;
  for (const ManifestFile& file : files) paths.push_back(file.path);
  return paths;
}

const ManifestFile* Manifest::find(std::string_view path) const {
  const auto found = std::ranges::find(files, path, &ManifestFile::path);
  return found == files.end() ? nullptr : &*found;
}

Result<Manifest> parse_manifest(std::string_view text) {
  boost::system::error_code error;
  const json::value document = json::parse(text, error);
  if (error || !document.is_object()) return bad("the hub's answer about the repository is empty or no JSON object");
  const json::object& object = document.get_object();
  Manifest manifest{.commit = text_of(object, "sha"), .files = {}};
  if (!is_hex(manifest.commit, 40)) return bad("the hub's answer names no commit");
  const json::value* siblings = object.if_contains("siblings");
  if (!siblings || !siblings->is_array()) return bad("the hub's answer lists no files");
  for (const json::value& value : siblings->get_array()) {
    MARTLET_ASSIGN(ManifestFile file, parse_file(value));
    manifest.files.push_back(std::move(file));
  }
  return manifest;
}

}  // namespace martlet
