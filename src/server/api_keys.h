#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace martlet::server {

// The keys that open the server. Only their digests are kept.
class ApiKeys {
 public:
  explicit ApiKeys(const std::vector<std::string>& keys);
  bool empty() const { return digests_.empty(); }
  // Takes the same time whichever key, and whichever byte of it, is wrong: digests of equal length are compared whole,
  // every one of them.
  bool accepts(std::string_view key) const { return find(key) > 0; }
  // True when the value of an Authorization field is "Bearer KEY" (the word in any case) with a key that opens.
  bool accepts_authorization(std::string_view field) const;
  // Whose request it is: with two keys or more their holders are tenants of their own, from 1; all others are 0.
  int32_t tenant(std::string_view authorization) const;

 private:
  using Digest = std::array<unsigned char, 32>;
  static Digest digest(std::string_view key);
  int32_t find(std::string_view key) const;  // its place from 1; 0: none
  std::vector<Digest> digests_;
};

}  // namespace martlet::server
