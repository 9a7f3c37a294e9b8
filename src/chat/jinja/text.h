#pragma once

// Strings that know, byte by byte, whether the template wrote them ("trusted") or they came from the inputs.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string_view>

#include "chat/jinja/budget.h"

namespace martlet::jinja {

// An immutable string of UTF-8, a slice of a shared body: copies and slices are O(1). Default-constructed: empty.
class Text {
 public:
  Text() = default;
  Text(std::string_view bytes, bool trusted);  // copies
  // `bytes` must outlive every slice of the result.
  static Text borrow(std::string_view bytes, bool trusted);

  std::string_view view() const;
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  // True when every byte is known to be ASCII, so that offsets and code point indices are the same.
  bool ascii() const;
  // Python's len(): code points.
  size_t length() const;
  // Byte range [begin, end) of this text. Keeps the markup flag.
  Text slice(size_t begin, size_t end) const;
  // Calls run(std::string_view, bool trusted) for each maximal stretch of one provenance, in order.
  template <class Run>
  void for_each_run(Run run) const;
  bool wholly_trusted() const;

  // Set by the filters `safe` and `escape`: adding an ordinary string escapes that one (MarkupSafe's rule).
  bool markup() const { return markup_; }
  Text with_markup(bool markup) const;

 private:
  friend class TextBuilder;
  struct Body {
    String owned;
    std::string_view bytes;
    Vector<Span> trusted;
    bool ascii = true;
  };
  static std::shared_ptr<Body> make_body(String owned, Vector<Span> trusted);

  std::shared_ptr<const Body> body_;
  uint32_t begin_ = 0;
  uint32_t size_ : 31 = 0;
  uint32_t markup_ : 1 = 0;
};

// Appends texts, keeping their provenance. Linear in what is appended.
class TextBuilder {
 public:
  void append(std::string_view bytes, bool trusted);
  void append(const Text& text);
  void append(char32_t codepoint, bool trusted);
  void reserve(size_t bytes) { bytes_.reserve(bytes); }
  size_t size() const { return bytes_.size(); }
  std::string_view view() const { return bytes_; }
  const Vector<Span>& trusted() const { return trusted_; }
  Text take();  // leaves the builder empty

 private:
  String bytes_;
  Vector<Span> trusted_;
};

// What a template writes: texts in order, joined once at the end, so that long messages are not copied on their way.
class Pieces {
 public:
  void append(const Text& text);
  size_t size() const { return size_; }
  Text join() const;
  Rendered rendered() const;  // outside of any budget but the size's own

 private:
  Vector<Text> texts_;
  size_t size_ = 0;
};

Text concatenate(const Text& left, const Text& right);

template <class Run>
void Text::for_each_run(Run run) const {
  if (empty()) return;
  const size_t end = begin_ + size_;
  size_t at = begin_;
  const auto emit = [&](size_t to, bool trusted) {
    if (to > at) run(body_->bytes.substr(at, to - at), trusted);
    at = std::max(at, to);
  };
  auto span = std::upper_bound(body_->trusted.begin(), body_->trusted.end(), at,
                               [](size_t offset, const Span& s) { return offset < s.end; });
  for (; span != body_->trusted.end() && span->begin < end; ++span) {
    emit(std::min(span->begin, end), false);
    emit(std::min(span->end, end), true);
  }
  emit(end, false);
}

}  // namespace martlet::jinja
