#include <curl/curl.h>

#include <array>
#include <cctype>
#include <cstdio>
#include <memory>

#include "net/download.h"

namespace martlet {
namespace {

using Url = std::unique_ptr<CURLU, decltype(&curl_url_cleanup)>;

Url parse(const std::string& text) {
  Url url(curl_url(), curl_url_cleanup);
  if (url && curl_url_set(url.get(), CURLUPART_URL, text.c_str(), 0) != CURLUE_OK) url.reset();
  return url;
}

std::string part(const Url& url, CURLUPart which, unsigned flags = 0) {
  char* text = nullptr;
  if (curl_url_get(url.get(), which, &text, flags) != CURLUE_OK) return "";
  std::string out(text);
  curl_free(text);
  return out;
}

}  // namespace

std::string origin_of(const std::string& text) {
  const Url url = parse(text);
  if (!url) return "";
  const std::string scheme = part(url, CURLUPART_SCHEME);
  if ((scheme != "http" && scheme != "https") || !part(url, CURLUPART_USER).empty()) return "";
  std::string host = part(url, CURLUPART_HOST);
  for (char& c : host) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return scheme + "://" + host + ":" + part(url, CURLUPART_PORT, CURLU_DEFAULT_PORT);
}

std::string join_url(const std::string& base, const std::string& location) {
  const Url url = parse(base);
  if (!url || curl_url_set(url.get(), CURLUPART_URL, location.c_str(), 0) != CURLUE_OK) return "";
  return part(url, CURLUPART_URL);
}

std::string encode_path(const std::string& text) {
  std::string out;
  for (const unsigned char c : text) {
    if (std::isalnum(c) || c == '-' || c == '_' || c == '.' || c == '~' || c == '/') {
      out += static_cast<char>(c);
    } else {
      std::array<char, 4> escape;
      std::snprintf(escape.data(), escape.size(), "%%%02X", c);
      out += escape.data();
    }
  }
  return out;
}

}  // namespace martlet
