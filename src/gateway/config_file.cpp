#include "gateway/config_file.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <boost/json/basic_parser_impl.hpp>

#include "base/utf8.h"
#include "server/json_events.h"

namespace martlet::gateway {

namespace json = boost::json;

namespace {

constexpr size_t kMaxDepth = 16;
constexpr uintmax_t kMaxBytes = 1u << 20;

// Builds the tree. The parser gets the text line by line, so `line` is where it stands.
struct Builder : server::JsonEvents {
  using Kind = ConfigNode::Kind;

  bool add(ConfigNode node) {
    if (open.empty()) return root = std::move(node), true;
    if (open.back().kind == Kind::object) node.name = std::exchange(keys.back(), {});
    open.back().items.push_back(std::move(node));
    return true;
  }
  bool scalar(json::value value) { return add({line, Kind::scalar, {}, std::move(value), {}}); }
  bool begin(Kind kind) {
    open.push_back({line, kind, {}, {}, {}});
    keys.emplace_back();
    return true;
  }
  bool close() {
    ConfigNode node = std::move(open.back());
    open.pop_back();
    keys.pop_back();
    return add(std::move(node));
  }

  bool on_object_begin(error_code&) { return begin(Kind::object); }
  bool on_object_end(size_t, error_code&) { return close(); }
  bool on_array_begin(error_code&) { return begin(Kind::array); }
  bool on_array_end(size_t, error_code&) { return close(); }
  bool on_key_part(string_view s, size_t, error_code&) { return text.append(s.data(), s.size()), true; }
  bool on_key(string_view s, size_t, error_code& ec) {
    text.append(s.data(), s.size());
    const auto& members = open.back().items;
    twice = std::any_of(members.begin(), members.end(), [&](const ConfigNode& member) { return member.name == text; });
    if (twice) return ec = json::error::syntax, false;
    return keys.back() = std::exchange(text, {}), true;
  }
  bool on_string_part(string_view s, size_t, error_code&) { return text.append(s.data(), s.size()), true; }
  bool on_string(string_view s, size_t, error_code&) {
    text.append(s.data(), s.size());
    return scalar(json::value(json::string_view(std::exchange(text, {}))));
  }
  bool on_int64(int64_t i, string_view, error_code&) { return scalar(i); }
  bool on_uint64(uint64_t u, string_view, error_code&) { return scalar(u); }
  bool on_double(double d, string_view, error_code&) { return scalar(d); }
  bool on_bool(bool b, error_code&) { return scalar(b); }
  bool on_null(error_code&) { return scalar(nullptr); }

  int line = 1;
  bool twice = false;
  std::vector<ConfigNode> open;
  std::vector<std::string> keys;  // of each open object: of the member that comes next
  std::string text;
  ConfigNode root;
};

// Comments as blanks, line by line where they were. One that does not end stays, and is no JSON. Boost.JSON reads
// comments itself, but past its input where one begins on one line and ends on another.
std::string without_comments(std::string text) {
  const auto blank = [&](size_t from, size_t to) {
    for (size_t i = from; i < to; ++i)
      if (text[i] != '\n') text[i] = ' ';
    return to;
  };
  bool in_string = false;
  for (size_t at = 0; at < text.size();) {
    const std::string_view rest = std::string_view(text).substr(at);
    if (in_string || rest[0] == '"') {
      const bool escape = in_string && rest[0] == '\\';
      in_string ^= rest[0] == '"';
      at += escape ? 2 : 1;
    } else if (rest.starts_with("//")) {
      at = blank(at, std::min(text.find('\n', at), text.size()));
    } else if (const size_t end = rest.starts_with("/*") ? text.find("*/", at + 2) : text.npos; end != text.npos) {
      at = blank(at, end + 2);
    } else {
      ++at;
    }
  }
  return text;
}

Error bad_config(const char* text, const std::string& name, int line) {
  return {ErrorKind::usage, "bad_config", text, name + ":" + std::to_string(line)};
}

}  // namespace

Result<ConfigNode> parse_config_text(std::string_view input, const std::string& name) {
  if (const size_t bad = utf8::find_invalid(input); bad != input.npos) {
    const auto line = 1 + std::count(input.begin(), input.begin() + static_cast<ptrdiff_t>(bad), '\n');
    return bad_config("the file is not valid UTF-8", name, static_cast<int>(line));
  }
  json::parse_options options;
  options.max_depth = kMaxDepth;
  json::basic_parser<Builder> parser(options);
  Builder& builder = parser.handler();
  json::error_code ec;
  const std::string blanked = without_comments(std::string(input));
  std::string_view text = blanked;
  while (!text.empty() && !ec) {
    const size_t size = std::min(text.find('\n'), text.size() - 1) + 1;
    const bool last = size == text.size();
    const size_t used = parser.write_some(!last, text.data(), size, ec);
    if (!ec && used < size && text.substr(used, size - used).find_first_not_of(" \t\r\n") != text.npos) {
      return bad_config("something follows the configuration's object", name, builder.line);
    }
    if (ec) break;
    text.remove_prefix(size);
    if (!last) ++builder.line;
  }
  if (builder.twice) return bad_config("this key stands twice in its object", name, builder.line);
  if (ec == json::error::too_deep) return bad_config("the configuration nests too deep", name, builder.line);
  if (ec || !parser.done()) return bad_config("this is not JSON", name, builder.line);
  return std::move(builder.root);
}

Result<ConfigNode> read_config_file(const std::string& path) {
  std::error_code ec;
  const auto status = std::filesystem::status(path, ec);
  if (!std::filesystem::exists(status)) return Error{ErrorKind::io, "cannot_open", "there is no such file", path};
  if (!std::filesystem::is_regular_file(status)) {
    return Error{ErrorKind::io, "not_regular_file", "the configuration must be a regular file", path};
  }
  if (std::filesystem::file_size(path, ec) > kMaxBytes) return bad_config("the file is larger than 1 MiB", path, 1);
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file || !text) return Error{ErrorKind::io, "cannot_open", "the file cannot be read", path};
  return parse_config_text(text.str(), path);
}

}  // namespace martlet::gateway
