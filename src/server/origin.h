#pragma once

// A server that only this machine can reach must not be reachable through its user's browser: pages from elsewhere
// (Origin) and names that an attacker made point here (DNS rebinding: Host) are refused.

#include <string_view>

namespace martlet::server {

// Value of a Host field: localhost, 127.0.0.0/8 or [::1], with any port.
bool is_local_host(std::string_view host);
// Value of an Origin field: http(s) of such a host.
bool is_local_origin(std::string_view origin);

}  // namespace martlet::server
