#pragma once

#include <string>
#include <string_view>

#include "base/error.h"

namespace martlet {

// A model on the hub: hf:owner/repository[:file].
struct HubReference {
  std::string owner, repository;
  std::string file;  // a path in the repository, or a quantization name such as Q8_0; empty: chosen by choose.h's rule

  std::string name() const { return owner + "/" + repository; }
  std::string folder() const { return "models--" + owner + "--" + repository; }  // in the hub cache
};

// `text` with or without the "hf:". Owner, repository and file become parts of paths and URLs, so their characters are
// checked here. Errors: ErrorKind::usage, "bad_reference".
Result<HubReference> parse_hub_reference(std::string_view text);

// True for a relative path that stays below its start: no empty, "." or ".." part, no backslash, no control character.
bool is_safe_path(std::string_view path);

// True for exactly `length` lower-case hexadecimal digits: commit ids (40), SHA-256 digests (64).
bool is_hex(std::string_view text, size_t length);

}  // namespace martlet
