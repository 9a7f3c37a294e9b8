#pragma once

#include <filesystem>
#include <string>

namespace martlet {

// The value of an environment variable; empty when it is unset.
std::string environment(const char* name);

// The model store: $MARTLET_HOME, $XDG_DATA_HOME/martlet, ~/.local/share/martlet.
std::filesystem::path store_directory();
// Chat history and the like: $MARTLET_HOME/state, $XDG_STATE_HOME/martlet, ~/.local/state/martlet.
std::filesystem::path state_directory();
// The hub's own cache, shared with its other clients: $HF_HUB_CACHE, $HF_HOME/hub, $XDG_CACHE_HOME/huggingface/hub,
// ~/.cache/huggingface/hub.
std::filesystem::path hub_cache_directory();

// $HF_ENDPOINT without a trailing slash, or the public hub.
std::string hub_endpoint();
// $HF_TOKEN, or the first line of the token file ($HF_TOKEN_PATH, else "token" in the hub's home); empty when there is
// none.
std::string hub_token();

}  // namespace martlet
