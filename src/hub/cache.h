#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "hub/reference.h"

namespace martlet {

// One repository in the hub's cache layout: refs/main holds a commit id, snapshots/<commit>/<file> are relative links
// to blobs/<digest>.
class CachedRepository {
 public:
  explicit CachedRepository(const HubReference& reference);
  explicit CachedRepository(std::filesystem::path root) : root_(std::move(root)) {}

  const std::filesystem::path& root() const { return root_; }
  std::string commit() const;  // of refs/main; empty when there is none
  std::filesystem::path blob(const std::string& digest) const { return root_ / "blobs" / digest; }
  std::filesystem::path snapshot() const { return root_ / "snapshots" / commit(); }
  // Files of the snapshot that refs/main names, as paths below it; links to blobs that are not there are left out.
  std::vector<std::string> files() const;

 private:
  std::filesystem::path root_;
};

}  // namespace martlet
