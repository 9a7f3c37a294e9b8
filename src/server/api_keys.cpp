#include "server/api_keys.h"

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

bool ApiKeys::accepts(std::string_view key) const {
  const Digest offered = digest(key);
  int matches = 0;
  for (const Digest& known : digests_) matches |= CRYPTO_memcmp(known.data(), offered.data(), known.size()) == 0;
  return matches != 0;
}

bool ApiKeys::accepts_authorization(std::string_view field) const {
  constexpr std::string_view kScheme = "Bearer ";
  return field.starts_with(kScheme) && accepts(field.substr(kScheme.size()));
}

}  // namespace martlet::server
