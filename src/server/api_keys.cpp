#include "server/api_keys.h"

#include <algorithm>

#include <openssl/crypto.h>
#include <openssl/sha.h>

namespace martlet::server {

ApiKeys::Digest ApiKeys::digest(std::string_view key) {
  Digest out;
  SHA256(reinterpret_cast<const unsigned char*>(key.data()), key.size(), out.data());
  return out;
}

ApiKeys::ApiKeys(const std::vector<std::string>& keys) {
  for (const std::string& key : keys) digests_.push_back(digest(key));
}

int32_t ApiKeys::find(std::string_view key) const {
  const Digest offered = digest(key);
  int32_t found = 0;
  for (size_t i = 0; i < digests_.size(); ++i) {
    const bool same = CRYPTO_memcmp(digests_[i].data(), offered.data(), offered.size()) == 0;
    found = std::max(found, static_cast<int32_t>(same) * static_cast<int32_t>(i + 1));
  }
  return found;
}

namespace {

// The key of an Authorization field; empty where there is none.
std::string_view bearer(std::string_view field) {
  constexpr std::string_view kScheme = "bearer ";  // in any case
  const auto same = [](char known, char given) { return known == given || (known != ' ' && known == (given | 0x20)); };
  const bool is_bearer =
      field.size() > kScheme.size() && std::equal(kScheme.begin(), kScheme.end(), field.begin(), same);
  return is_bearer ? field.substr(kScheme.size()) : std::string_view();
}

}  // namespace

bool ApiKeys::accepts_authorization(std::string_view field) const {
  const std::string_view key = bearer(field);
  return !key.empty() && accepts(key);
}

int32_t ApiKeys::tenant(std::string_view authorization) const {
  return digests_.size() < 2 ? 0 : find(bearer(authorization));
}

}  // namespace martlet::server
