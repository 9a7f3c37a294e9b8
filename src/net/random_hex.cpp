#include "net/random_hex.h"

#include <openssl/rand.h>

#include <stdexcept>
#include <vector>

namespace martlet::net {

std::string random_hex(size_t bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::vector<unsigned char> random(bytes);
  if (RAND_bytes(random.data(), static_cast<int>(bytes)) != 1) throw std::runtime_error("no entropy");
  std::string out;
  out.reserve(2 * bytes);
  for (const unsigned char byte : random) {
    out += kDigits[byte >> 4];
    out += kDigits[byte & 15];
  }
  return out;
}

}  // namespace martlet::net
