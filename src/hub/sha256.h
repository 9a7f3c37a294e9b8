#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace martlet {

// SHA-256 of a stream of bytes.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;
  void update(std::span<const std::byte> bytes);
  std::string finish();  // 64 lower-case hexadecimal digits; the object is spent

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace martlet
