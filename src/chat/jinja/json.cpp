#include <cmath>

#include "base/utf8.h"
#include "chat/jinja/represent.h"

namespace martlet::jinja {
namespace {

class JsonWriter {
 public:
  explicit JsonWriter(const JsonOptions& options) : options_(options) {}

  void write(const Value& value) {
    check_stack();
    work();
    if (const Text* text = value.text()) return write_string(text->view());
    if (const Dict* dict = value.dict()) return write_dict(*dict);
    const Sequence* sequence = value.sequence();
    if (sequence && (sequence->kind == Sequence::Kind::list || sequence->kind == Sequence::Kind::tuple)) {
      return write_list(sequence->items);
    }
    out_.append(scalar(value), false);
  }
  Text take() { return out_.take(); }

 private:
  static std::string scalar(const Value& value) {
    if (value.none()) return "null";
    if (const auto* boolean = value.get<bool>()) return *boolean ? "true" : "false";
    if (const auto* integer = value.get<Integer>()) return std::to_string(*integer);
    if (const auto* number = value.get<double>()) {
      if (std::isnan(*number)) return "NaN";
      if (std::isinf(*number)) return *number < 0 ? "-Infinity" : "Infinity";
      return represent_number(*number);
    }
    if (value.undefined() && value.undefined()->forbidden) fail_undefined(*value.undefined());
    fail("a value of type '" + std::string(type_name(value)) + "' cannot be written as JSON");
  }

  void write_unicode_escape(char32_t unit) {
    std::string escape = "\\u";
    for (int shift = 12; shift >= 0; shift -= 4) escape += "0123456789abcdef"[(unit >> shift) & 15];
    out_.append(escape, false);
  }

  void write_character(char32_t c, std::string_view raw) {
    static constexpr std::string_view kShort = "\"\"\\\\\bb\ff\nn\rr\tt";  // pairs: character, escape letter
    for (size_t i = 0; i < kShort.size(); i += 2) {
      if (c != static_cast<unsigned char>(kShort[i])) continue;
      const char escape[] = {'\\', kShort[i + 1]};
      return out_.append(std::string_view(escape, 2), false);
    }
    if (c < 0x20 || (c == 0x7f && options_.ensure_ascii)) return write_unicode_escape(c);
    if (!options_.ensure_ascii || c < 0x80) return out_.append(raw, false);
    if (c < 0x10000) return write_unicode_escape(c);
    write_unicode_escape(0xd800 + ((c - 0x10000) >> 10));
    write_unicode_escape(0xdc00 + ((c - 0x10000) & 0x3ff));
  }

  void write_string(std::string_view bytes) {
    work(units_of(bytes.size()));
    out_.append("\"", false);
    for (size_t at = 0; at < bytes.size();) {
      const utf8::Decoded decoded = utf8::decode(bytes, at);
      write_character(decoded.codepoint, bytes.substr(at, decoded.length));
      at += decoded.length;
    }
    out_.append("\"", false);
  }

  void write_break() {
    if (!options_.indent) return;
    out_.append("\n", false);
    for (int i = 0; i < level_; ++i) out_.append(options_.indent->view(), false);
  }

  template <class Entries, class Write>
  void write_entries(const Entries& entries, std::string_view brackets, Write write_entry) {
    out_.append(brackets.substr(0, 1), false);
    ++level_;
    bool first = true;
    for (const auto& entry : entries) {
      if (!std::exchange(first, false)) out_.append(options_.item_separator.view(), false);
      write_break();
      write_entry(entry);
    }
    --level_;
    if (!first) write_break();
    out_.append(brackets.substr(1), false);
  }

  void write_list(const Items& items) {
    write_entries(items, "[]", [this](const Value& item) { write(item); });
  }

  void write_dict(const Dict& dict) {
    auto entries = dict.entries();
    if (options_.sort_keys) {
      std::stable_sort(entries.begin(), entries.end(),
                       [](const auto& a, const auto& b) { return compare(a.first, b.first) == -1; });
    }
    write_entries(entries, "{}", [this](const std::pair<Value, Value>& entry) {
      write_string(entry.first.text() ? std::string(entry.first.text()->view()) : scalar(entry.first));
      out_.append(options_.key_separator.view(), false);
      write(entry.second);
    });
  }

  const JsonOptions& options_;
  TextBuilder out_;
  int level_ = 0;
};

}  // namespace

Text to_json(const Value& value, const JsonOptions& options) {
  JsonWriter writer(options);
  writer.write(value);
  return writer.take();
}

}  // namespace martlet::jinja
