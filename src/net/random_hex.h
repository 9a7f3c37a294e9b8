#pragma once

#include <cstddef>
#include <string>

namespace martlet::net {

// 2 * bytes hexadecimal digits that nobody can guess, from OpenSSL's generator. Thread-safe. Throws std::runtime_error
// where the system has no entropy.
std::string random_hex(size_t bytes);

}  // namespace martlet::net
