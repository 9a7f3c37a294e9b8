#include "net/random_hex.h"

#include <openssl/rand.h>

#include <stdexcept>

namespace martlet::net {

std::string random_hex(size_t bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out(2 * bytes, '\0');
  // The bytes come to stand in the upper half: the digits of one never reach one that has not been read.
  auto* const random = reinterpret_cast<unsigned char*>(out.data() + bytes);
  if (RAND_bytes(random, static_cast<int>(bytes)) != 1) throw std::runtime_error("no entropy");
  for (size_t i = 0; i < bytes; ++i) {
    const unsigned char byte = random[i];
    out[2 * i] = kDigits[byte >> 4];
    out[2 * i + 1] = kDigits[byte & 15];
  }
  return out;
}

}  // namespace martlet::net
