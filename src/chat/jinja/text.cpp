#include "chat/jinja/text.h"

#include "base/utf8.h"

namespace martlet::jinja {
namespace {

constexpr size_t kMaxBytes = size_t{1} << 30;

bool is_ascii(std::string_view bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

Vector<Span> whole(size_t size, bool trusted) {
  Vector<Span> spans;
  if (trusted && size > 0) spans.push_back({0, size});
  return spans;
}

}  // namespace

std::shared_ptr<Text::Body> Text::make_body(String owned, Vector<Span> trusted) {
  if (owned.size() >= kMaxBytes) exceed("a string is too long");
  auto body = make<Body>();
  body->owned = std::move(owned);
  body->bytes = body->owned;
  body->trusted = std::move(trusted);
  body->ascii = is_ascii(body->bytes);
  return body;
}

Text::Text(std::string_view bytes, bool trusted) {
  if (bytes.empty()) return;
  body_ = make_body(String(bytes), whole(bytes.size(), trusted));
  size_ = static_cast<uint32_t>(bytes.size());
}

Text Text::borrow(std::string_view bytes, bool trusted) {
  if (bytes.size() >= kMaxBytes) exceed("a string is too long");
  Text text;
  if (bytes.empty()) return text;
  auto body = make<Body>();
  body->bytes = bytes;
  body->trusted = whole(bytes.size(), trusted);
  body->ascii = is_ascii(bytes);
  work(units_of(bytes.size()));
  text.body_ = std::move(body);
  text.size_ = static_cast<uint32_t>(bytes.size());
  return text;
}

std::string_view Text::view() const {
  return body_ ? body_->bytes.substr(begin_, size_) : std::string_view();
}

bool Text::ascii() const {
  return !body_ || body_->ascii;
}

size_t Text::length() const {
  if (ascii()) return size();
  work(units_of(size()));
  size_t count = 0;
  const std::string_view bytes = view();
  for (size_t at = 0; at < bytes.size(); at += utf8::decode(bytes, at).length) ++count;
  return count;
}

Text Text::slice(size_t begin, size_t end) const {
  Text out;
  out.markup_ = markup_;
  end = std::min(end, size());
  if (begin >= end) return out;
  out.body_ = body_;
  out.begin_ = begin_ + static_cast<uint32_t>(begin);
  out.size_ = static_cast<uint32_t>(end - begin);
  return out;
}

bool Text::wholly_trusted() const {
  bool trusted = true;
  for_each_run([&](std::string_view, bool t) { trusted = trusted && t; });
  return trusted;
}

Text Text::with_markup(bool markup) const {
  Text out = *this;
  out.markup_ = markup;
  return out;
}

void TextBuilder::append(std::string_view bytes, bool trusted) {
  if (bytes.empty()) return;
  const size_t begin = bytes_.size();
  bytes_.append(bytes);
  if (!trusted) return;
  if (!trusted_.empty() && trusted_.back().end == begin) {
    trusted_.back().end = bytes_.size();
  } else {
    trusted_.push_back({begin, bytes_.size()});
  }
}

void TextBuilder::append(const Text& text) {
  work(units_of(text.size()));
  text.for_each_run([this](std::string_view bytes, bool trusted) { append(bytes, trusted); });
}

void TextBuilder::append(char32_t codepoint, bool trusted) {
  std::string bytes;
  utf8::append(bytes, codepoint);
  append(bytes, trusted);
}

Text TextBuilder::take() {
  Text text;
  if (bytes_.empty()) return text;
  const size_t size = bytes_.size();
  text.body_ = Text::make_body(std::move(bytes_), std::move(trusted_));
  text.size_ = static_cast<uint32_t>(size);
  bytes_.clear();
  trusted_.clear();
  return text;
}

void Pieces::append(const Text& text) {
  if (text.empty()) return;
  texts_.push_back(text);
  size_ += text.size();
}

Text Pieces::join() const {
  if (texts_.empty()) return {};
  if (texts_.size() == 1) return texts_.front().with_markup(false);
  TextBuilder out;
  out.reserve(size_);
  for (const Text& text : texts_) out.append(text);
  return out.take();
}

Rendered Pieces::rendered() const {
  Rendered out;
  out.text.reserve(size_);
  for (const Text& text : texts_) {
    text.for_each_run([&out](std::string_view bytes, bool trusted) {
      const size_t begin = out.text.size();
      out.text.append(bytes);
      if (!trusted) return;
      if (!out.trusted.empty() && out.trusted.back().end == begin) {
        out.trusted.back().end = out.text.size();
      } else {
        out.trusted.push_back({begin, out.text.size()});
      }
    });
  }
  return out;
}

Text concatenate(const Text& left, const Text& right) {
  if (left.empty()) return right;
  if (right.empty()) return left;
  TextBuilder out;
  out.reserve(left.size() + right.size());
  out.append(left);
  out.append(right);
  return out.take();
}

}  // namespace martlet::jinja
