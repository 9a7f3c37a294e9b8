#pragma once

#include <string>

struct sockaddr;

namespace martlet {

// What an IP address reaches. IPv4 addresses inside IPv6 ones (mapped, NAT64, 6to4) count as the IPv4 address.
enum class AddressClass {
  public_internet,
  loopback,
  private_network,
  special
};  // special: link-local, multicast, "this host"

AddressClass classify(const sockaddr& address);
// For a URL's host when it is an IP address, with or without brackets; anything else counts as public_internet.
AddressClass classify_literal(const std::string& host);

}  // namespace martlet
