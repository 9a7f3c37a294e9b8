#pragma once

#include <array>
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
  bool accepts(std::string_view key) const;
  // True when the value of an Authorization field is "Bearer KEY" with a key that opens.
  bool accepts_authorization(std::string_view field) const;

 private:
  using Digest = std::array<unsigned char, 32>;
  static Digest digest(std::string_view key);
  std::vector<Digest> digests_;
};

}  // namespace martlet::server
