#include "net/random_hex.h"

#include <openssl/rand.h>

#include <algorithm>
#include <array>
#include <stdexcept>

namespace martlet::net {
namespace {

// Several ids of a request share one call of the generator, which takes locks and asks for the process's id each time.
class Entropy {
 public:
  void take(unsigned char* out, size_t bytes) {
    for (size_t done = 0; done < bytes;) {
      if (next_ == ready_.size()) refill();
      const size_t count = std::min(bytes - done, ready_.size() - next_);
      unsigned char* const from = ready_.data() + next_;
      std::copy_n(from, count, out + done);
      std::fill_n(from, count, 0);  // an id may be a key
      next_ += count, done += count;
    }
  }

 private:
  void refill() {
    if (RAND_bytes(ready_.data(), static_cast<int>(ready_.size())) != 1) throw std::runtime_error("no entropy");
    next_ = 0;
  }

  std::array<unsigned char, 512> ready_;
  size_t next_ = ready_.size();
};

}  // namespace

std::string random_hex(size_t bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  static thread_local Entropy entropy;
  std::string out(2 * bytes, '\0');
  // The bytes come to stand in the upper half: the digits of one never reach one that has not been read.
  auto* const random = reinterpret_cast<unsigned char*>(out.data() + bytes);
  entropy.take(random, bytes);
  for (size_t i = 0; i < bytes; ++i) {
    const unsigned char byte = random[i];
    out[2 * i] = kDigits[byte >> 4];
    out[2 * i + 1] = kDigits[byte & 15];
  }
  return out;
}

}  // namespace martlet::net
