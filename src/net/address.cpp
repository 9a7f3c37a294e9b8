#include "net/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace martlet {
namespace {

struct Block {
  uint32_t prefix;
  int bits;
  AddressClass reach;
};

// IANA special-purpose address registry, as far as something could answer there.
constexpr Block kBlocks[] = {
    {0x00000000, 8, AddressClass::special},           // 0.0.0.0/8: this host
    {0x0a000000, 8, AddressClass::private_network},   // 10/8
    {0x64400000, 10, AddressClass::private_network},  // 100.64/10: carrier NAT
    {0x7f000000, 8, AddressClass::loopback},          // 127/8
    {0xa9fe0000, 16, AddressClass::special},          // 169.254/16: link-local, cloud metadata
    {0xac100000, 12, AddressClass::private_network},  // 172.16/12
    {0xc0000000, 24, AddressClass::special},          // 192.0.0/24: protocol assignments
    {0xc0a80000, 16, AddressClass::private_network},  // 192.168/16
    {0xc6120000, 15, AddressClass::private_network},  // 198.18/15: benchmarks
    {0xe0000000, 3, AddressClass::special},           // multicast, reserved, broadcast
};

AddressClass classify4(uint32_t address) {
  for (const Block& block : kBlocks) {
    if ((address ^ block.prefix) >> (32 - block.bits) == 0) return block.reach;
  }
  return AddressClass::public_internet;
}

uint32_t big_endian(const uint8_t* bytes) {
  return uint32_t{bytes[0]} << 24 | uint32_t{bytes[1]} << 16 | uint32_t{bytes[2]} << 8 | bytes[3];
}

bool starts_with(const uint8_t* bytes, std::initializer_list<uint8_t> prefix) {
  return std::equal(prefix.begin(), prefix.end(), bytes);
}

AddressClass classify6(const uint8_t* bytes) {
  const bool zero10 = std::all_of(bytes, bytes + 10, [](uint8_t b) { return b == 0; });
  if (zero10 && bytes[10] == 0xff && bytes[11] == 0xff) return classify4(big_endian(bytes + 12));
  if (zero10 && bytes[10] == 0 && bytes[11] == 0)
    return big_endian(bytes + 12) == 1 ? AddressClass::loopback : AddressClass::special;
  if (starts_with(bytes, {0x00, 0x64, 0xff, 0x9b})) return classify4(big_endian(bytes + 12));  // NAT64
  if (starts_with(bytes, {0x20, 0x02})) return classify4(big_endian(bytes + 2));               // 6to4
  if ((bytes[0] & 0xfe) == 0xfc) return AddressClass::private_network;                         // unique local
  return (bytes[0] & 0xe0) == 0x20 ? AddressClass::public_internet : AddressClass::special;    // 2000::/3 is global
}

}  // namespace

AddressClass classify(const sockaddr& address) {
  if (address.sa_family == AF_INET) {
    sockaddr_in in;
    std::memcpy(&in, &address, sizeof in);
    return classify4(ntohl(in.sin_addr.s_addr));
  }
  if (address.sa_family == AF_INET6) {
    sockaddr_in6 in;
    std::memcpy(&in, &address, sizeof in);
    return classify6(in.sin6_addr.s6_addr);
  }
  return AddressClass::special;
}

AddressClass classify_literal(const std::string& host) {
  std::string plain = host;
  if (plain.size() > 2 && plain.front() == '[' && plain.back() == ']') plain = plain.substr(1, plain.size() - 2);
  plain.resize(std::min(plain.size(), plain.find('%')));  // zone
  uint8_t bytes[16];
  if (inet_pton(AF_INET, plain.c_str(), bytes) == 1) return classify4(big_endian(bytes));
  if (inet_pton(AF_INET6, plain.c_str(), bytes) == 1) return classify6(bytes);
  return AddressClass::public_internet;
}

}  // namespace martlet
