#include "net/download.h"

#include <curl/curl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <mutex>
#include <string_view>

namespace martlet {
namespace {

constexpr int kMaxRedirects = 5;
constexpr size_t kMaxHeaderBytes = 64 << 10;
constexpr long kConnectSeconds = 15, kStallSeconds = 30;

Error network(const char* code, const char* text, const std::string& where) {
  return {ErrorKind::network, code, text, where};
}

// What the user may see of a URL: a redirect's query holds signatures, which are as good as a token.
std::string shown(const std::string& url) {
  return url.substr(0, url.find('?'));
}

// Behind a proxy the socket's address is the proxy's own.
bool has_proxy() {
  return std::ranges::any_of(
      std::initializer_list<const char*>{"http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"},
      [](const char* name) { return std::getenv(name) && *std::getenv(name); });
}

std::string host_of(const std::string& origin) {
  const size_t begin = origin.find("://") + 3;
  return origin.substr(begin, origin.rfind(':') - begin);
}

bool is_redirect(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

Status check_status(int status, const std::string& url) {
  if (status >= 200 && status < 300) return {};
  if (status == 401 || status == 403)
    return network("unauthorized", "the server refused access: set HF_TOKEN to a token that may read the repository",
                   url);
  if (status == 404 || status == 410) return network("not_found", "the server has no such repository or file", url);
  if (status == 416) return network("source_changed", "the file at the source is shorter than before: pull again", url);
  if (status == 429 || status >= 500)
    return network("server_error", "the server could not answer: try again later", url);
  return network("http_status", "the server answered with an unexpected status", url);
}

}  // namespace

// The state of one request that libcurl's callbacks work on.
struct HttpClient::Transfer {
  Endpoint& endpoint;
  bool at_endpoint, check_address;
  CURL* curl;
  FetchResponse response;
  OnHead on_head;
  OnBody on_body;
  Status status;  // the first error of ours
  size_t header_bytes = 0;
  bool head_seen = false;

  void add_header(std::string_view line);
  Status begin_body();

  static size_t header(char* data, size_t, size_t size, void* self);
  static size_t body(char* data, size_t, size_t size, void* self);
  static curl_socket_t open_socket(void* self, curlsocktype, curl_sockaddr* address);
};

void HttpClient::Transfer::add_header(std::string_view line) {
  while (!line.empty() && std::isspace(static_cast<unsigned char>(line.back()))) line.remove_suffix(1);
  if (line.starts_with("HTTP/")) {  // a status line: a new response, after 100 or a proxy's own
    response.headers.clear();
    return;
  }
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos) return;
  std::string name(line.substr(0, colon));
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  line.remove_prefix(colon + 1);
  while (!line.empty() && (line.front() == ' ' || line.front() == '\t')) line.remove_prefix(1);
  response.headers[name] = line;
}

Status HttpClient::Transfer::begin_body() {
  head_seen = true;
  long code = 0;
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &code);
  response.status = static_cast<int>(code);
  if (is_redirect(response.status)) return {};
  MARTLET_TRY(check_status(response.status, shown(response.url)));
  // None was asked for: a compressed body would not be the file, and could unpack to any size.
  const std::string encoding = response.header("content-encoding");
  if (!encoding.empty() && encoding != "identity")
    return network("bad_response", "the server sent a compressed body that was not asked for", shown(response.url));
  return on_head(response);
}

size_t HttpClient::Transfer::header(char* data, size_t, size_t size, void* self) {
  auto& transfer = *static_cast<Transfer*>(self);
  transfer.header_bytes += size;
  if (transfer.header_bytes > kMaxHeaderBytes) {
    transfer.status = network("bad_response", "the server sent too many headers", shown(transfer.response.url));
    return 0;
  }
  transfer.add_header({data, size});
  return size;
}

size_t HttpClient::Transfer::body(char* data, size_t, size_t size, void* self) {
  auto& transfer = *static_cast<Transfer*>(self);
  if (!transfer.head_seen) transfer.status = transfer.begin_body();
  if (transfer.status && !is_redirect(transfer.response.status))
    transfer.status = transfer.on_body({reinterpret_cast<const std::byte*>(data), size});
  return transfer.status && !is_redirect(transfer.response.status) ? size : 0;  // 0 ends the transfer
}

// The address is checked here, after name resolution, so that no name can stand for an address that is not allowed.
curl_socket_t HttpClient::Transfer::open_socket(void* self, curlsocktype, curl_sockaddr* address) {
  auto& transfer = *static_cast<Transfer*>(self);
  if (transfer.check_address) {
    const AddressClass reach = classify(address->addr);
    if (transfer.at_endpoint) {
      transfer.endpoint.reach = static_cast<int>(reach);
    } else if (reach != AddressClass::public_internet && static_cast<int>(reach) != transfer.endpoint.reach) {
      transfer.status =
          network("redirect_refused", "the server sent us to an address that is not on the public internet",
                  shown(transfer.response.url));
      return CURL_SOCKET_BAD;
    }
  }
  const int descriptor = socket(address->family, address->socktype, address->protocol);
  return descriptor < 0 ? CURL_SOCKET_BAD : descriptor;
}

std::string FetchResponse::header(const std::string& name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? "" : found->second;
}

std::optional<uint64_t> FetchResponse::length() const {
  const std::string text = header("content-length");
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

Result<std::shared_ptr<Endpoint>> Endpoint::create(const std::string& url, const std::string& token) {
  const std::string origin = origin_of(url);
  if (origin.empty())
    return Error{ErrorKind::usage, "bad_endpoint", "the endpoint must be an http or https URL without a user name",
                 "HF_ENDPOINT"};
  // A line break in the token would add headers of its own.
  if (std::ranges::any_of(token, [](unsigned char c) { return c <= 0x20 || c >= 0x7f; }))
    return Error{ErrorKind::usage, "bad_token", "the token holds characters that no token has", "HF_TOKEN"};
  auto endpoint = std::make_shared<Endpoint>();
  endpoint->url = url;
  endpoint->origin = origin;
  endpoint->token = token;
  return endpoint;
}

HttpClient::HttpClient(std::shared_ptr<Endpoint> endpoint) : endpoint_(std::move(endpoint)) {
  static std::once_flag once;
  std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
  curl_ = curl_easy_init();
}

HttpClient::~HttpClient() {
  curl_easy_cleanup(curl_);
}

Status HttpClient::check_allowed(const std::string& url) const {
  const std::string origin = origin_of(url);
  if (origin == endpoint_->origin) return {};
  const auto refused = [&](const char* text) { return network("redirect_refused", text, shown(url)); };
  if (origin.empty()) return refused("the server sent us to something that is not a plain http or https URL");
  if (endpoint_->origin.starts_with("https:") && !origin.starts_with("https:"))
    return refused("the server sent us from https to http");
  const AddressClass reach = classify_literal(host_of(origin));
  if (reach != AddressClass::public_internet && static_cast<int>(reach) != endpoint_->reach)
    return refused("the server sent us to an address that is not on the public internet");
  return {};
}

Result<FetchResponse> HttpClient::fetch(const FetchRequest& request, OnHead on_head, OnBody on_body) {
  FetchRequest hop = request;
  for (int hops = 0; hops <= kMaxRedirects; ++hops) {
    MARTLET_TRY(check_allowed(hop.url));
    MARTLET_ASSIGN(FetchResponse response, fetch_once(hop, on_head, on_body));
    if (!is_redirect(response.status)) return response;
    hop.url = join_url(hop.url, response.header("location"));
    if (!request.follow_away && origin_of(hop.url) != endpoint_->origin) return response;
  }
  return network("redirect_refused", "the server redirects too often", shown(request.url));
}

Result<FetchResponse> HttpClient::fetch_once(const FetchRequest& request, OnHead on_head, OnBody on_body) {
  if (!curl_) return network("network_error", "the network library could not start", "");
  auto* curl = static_cast<CURL*>(curl_);
  curl_easy_reset(curl);  // keeps the connection
  const bool at_endpoint = origin_of(request.url) == endpoint_->origin;
  Transfer transfer{*endpoint_, at_endpoint, !has_proxy(), curl, {}, on_head, on_body, {}};
  transfer.response.url = request.url;
  curl_easy_setopt(curl, CURLOPT_URL, request.url.c_str());
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_USERAGENT, "martlet");
  curl_easy_setopt(curl, CURLOPT_NOBODY, request.head ? 1L : 0L);
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, kStallSeconds);
  curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, Transfer::header);
  curl_easy_setopt(curl, CURLOPT_HEADERDATA, &transfer);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, Transfer::body);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &transfer);
  curl_easy_setopt(curl, CURLOPT_OPENSOCKETFUNCTION, Transfer::open_socket);
  curl_easy_setopt(curl, CURLOPT_OPENSOCKETDATA, &transfer);
  if (!request.range.empty()) curl_easy_setopt(curl, CURLOPT_RANGE, request.range.c_str());
  curl_slist* headers = nullptr;
  if (at_endpoint && !endpoint_->token.empty())
    headers = curl_slist_append(headers, ("Authorization: Bearer " + endpoint_->token).c_str());
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
  const CURLcode code = curl_easy_perform(curl);
  curl_slist_free_all(headers);
  if (code == CURLE_OK && !transfer.head_seen) transfer.status = transfer.begin_body();  // there was no body
  if (!transfer.status) return std::move(transfer.status.error());
  if (code == CURLE_OK || (code == CURLE_WRITE_ERROR && is_redirect(transfer.response.status)))
    return transfer.response;
  if (code == CURLE_PEER_FAILED_VERIFICATION)
    return network("tls_failed", "the server's certificate is not valid", shown(request.url));
  if (code == CURLE_PARTIAL_FILE)
    return network("short_body", "the server sent fewer bytes than it announced: pull again", shown(request.url));
  return network("network_error", "the connection failed or broke off: check the network and try again",
                 shown(request.url));
}

Result<std::string> HttpClient::fetch_text(const std::string& url, size_t limit) {
  std::string text;
  MARTLET_TRY(fetch(
      {.url = url}, [](const FetchResponse&) { return Status(); },
      [&](std::span<const std::byte> bytes) -> Status {
        if (bytes.size() > limit - text.size())
          return network("bad_response", "the server's answer is too long", shown(url));
        text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
        return {};
      }));
  return text;
}

}  // namespace martlet
