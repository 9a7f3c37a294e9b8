#include "gateway/config_file.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <boost/json/basic_parser_impl.hpp>

#include "base/utf8.h"

namespace martlet::gateway {

namespace json = boost::json;

namespace {

constexpr size_t kMaxDepth = 16;
constexpr uintmax_t kMaxBytes = 1u << 20;

// Builds the tree. The parser gets the text line by line, so `line` is where it stands.
struct Builder {
  static constexpr size_t max_object_size = size_t(-1);
  static constexpr size_t max_array_size = size_t(-1);
  static constexpr size_t max_key_size = size_t(-1);
  static constexpr size_t max_string_size = size_t(-1);
  using error_code = json::error_code;
  using string_view = json::string_view;

  struct Open {
    ConfigNode node;
    std::string key;  // of the member that comes next, when node is an object
  };

  bool add(ConfigNode node) {
    if (open.empty()) return root = std::move(node), true;
    if (auto* items = std::get_if<ConfigNode::Items>(&open.back().node.value)) {
      items->push_back(std::move(node));
    } else {
      std::get<ConfigNode::Members>(open.back().node.value).emplace_back(open.back().key, std::move(node));
    }
    return true;
  }
  bool scalar(json::value value) { return add({line, std::move(value)}); }
  bool close() {
    ConfigNode node = std::move(open.back().node);
    open.pop_back();
    return add(std::move(node));
  }

  bool on_document_begin(error_code&) { return true; }
  bool on_document_end(error_code&) { return true; }
  bool on_object_begin(error_code&) { return open.push_back({{line, ConfigNode::Members()}, {}}), true; }
  bool on_object_end(size_t, error_code&) { return close(); }
  bool on_array_begin(error_code&) { return open.push_back({{line, ConfigNode::Items()}, {}}), true; }
  bool on_array_end(size_t, error_code&) { return close(); }
  bool on_key_part(string_view s, size_t, error_code&) { return text.append(s.data(), s.size()), true; }
  bool on_key(string_view s, size_t, error_code& ec) {
    text.append(s.data(), s.size());
    const auto& members = std::get<ConfigNode::Members>(open.back().node.value);
    twice = std::any_of(members.begin(), members.end(), [&](const auto& member) { return member.first == text; });
    if (twice) return ec = json::error::syntax, false;
    return open.back().key = std::exchange(text, {}), true;
  }
  bool on_string_part(string_view s, size_t, error_code&) { return text.append(s.data(), s.size()), true; }
  bool on_string(string_view s, size_t, error_code&) {
    text.append(s.data(), s.size());
    return scalar(json::value(json::string_view(std::exchange(text, {}))));
  }
  bool on_number_part(string_view, error_code&) { return true; }
  bool on_int64(int64_t i, string_view, error_code&) { return scalar(i); }
  bool on_uint64(uint64_t u, string_view, error_code&) { return scalar(u); }
  bool on_double(double d, string_view, error_code&) { return scalar(d); }
  bool on_bool(bool b, error_code&) { return scalar(b); }
  bool on_null(error_code&) { return scalar(nullptr); }
  bool on_comment_part(string_view, error_code&) { return true; }
  bool on_comment(string_view, error_code&) { return true; }

  int line = 1;
  bool twice = false;
  std::vector<Open> open;
  std::string text;
  ConfigNode root;
};

Error bad_config(const char* text, const std::string& name, int line) {
  return {ErrorKind::usage, "bad_config", text, name + ":" + std::to_string(line)};
}

}  // namespace

Result<ConfigNode> parse_config_text(std::string_view text, const std::string& name) {
  if (const size_t bad = utf8::find_invalid(text); bad != text.npos) {
    const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<ptrdiff_t>(bad), '\n');
    return bad_config("the file is not valid UTF-8", name, static_cast<int>(line));
  }
  json::parse_options options;
  options.max_depth = kMaxDepth;
  options.allow_comments = true;
  json::basic_parser<Builder> parser(options);
  Builder& builder = parser.handler();
  json::error_code ec;
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
