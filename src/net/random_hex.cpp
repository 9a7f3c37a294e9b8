#include "net/random_hex.h"

#include <openssl/rand.h>

#include <array>
#include <stdexcept>
#include <utility>

namespace martlet::net {
namespace {

// Several ids of a request share one call of the generator, which takes locks and asks for the process's id each time.
class Entropy {
 public:
  unsigned char next() {
    if (next_ == ready_.size()) refill();
    return std::exchange(ready_[next_++], 0);  // an id may be a key: no copy stays behind
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
  for (size_t i = 0; i < bytes; ++i) {
    const unsigned char byte = entropy.next();
    out[2 * i] = kDigits[byte >> 4];
    out[2 * i + 1] = kDigits[byte & 15];
  }
  return out;
}

}  // namespace martlet::net
