#include "cli/describe.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/printable.h"
#include "cli/progress.h"

namespace martlet::cli {
namespace {

constexpr size_t kLabelWidth = 20, kTemplateLines = 6, kTemplateColumns = 100, kArrayItems = 6, kTextBytes = 80;

std::string shown(std::string_view text) {
  return printable(text);
}

// At most `limit` bytes of `text`; what is cut off is said, not hidden.
std::string shortened(std::string_view text, size_t limit) {
  if (text.size() <= limit) return shown(text);
  while (limit > 0 && (static_cast<unsigned char>(text[limit]) & 0xc0) == 0x80) --limit;  // not inside a character
  return shown(text.substr(0, limit)) + fmt::format("... ({} bytes)", text.size());
}

std::string human_count(int64_t count) {
  if (count >= 1'000'000'000) return fmt::format("{:.2f} billion", static_cast<double>(count) / 1e9);
  if (count >= 1'000'000) return fmt::format("{:.1f} million", static_cast<double>(count) / 1e6);
  return std::to_string(count);
}

class Page {
 public:
  explicit Page(const Style& style) : style_(style) {}
  // A line whose label is empty continues the one before.
  void line(std::string_view label, const std::string& text) {
    out_ += fmt::format("{}{:<{}}{}{}\n", style_.dim, label, kLabelWidth, style_.plain, text);
  }
  void raw(const std::string& text) { out_ += text + "\n"; }
  std::string take() { return std::move(out_); }
  const Style& style() const { return style_; }

 private:
  const Style& style_;
  std::string out_;
};

void describe_formats(const ModelSummary& model, Page& page) {
  const char* label = "tensors";
  for (const FormatUse& use : model.formats) {
    const FormatInfo& format = info(use.format);
    std::string text = fmt::format("{:<8}{:>6}{:>12}", format.name, use.tensors, human_bytes(use.bytes));
    if (!format.computes)
      text += fmt::format("  {}cannot be computed with{}", page.style().warning, page.style().plain);
    page.line(label, text);
    label = "";
  }
}

std::string describe_token(const Tokenizer& tokenizer, Token token) {
  return token < 0 ? "none" : fmt::format("{} {}", token, shown(tokenizer.piece(token)));
}

void describe_vocabulary(const ModelSummary& model, Page& page) {
  if (model.vocabulary_size == 0) return page.line("vocabulary", "none");
  page.line("vocabulary", fmt::format("{} tokens", model.vocabulary_size));
  const std::string pre = model.pre_tokenizer.empty() ? "" : fmt::format(" ({})", shown(model.pre_tokenizer));
  page.line("tokenizer", shown(model.tokenizer) + pre);
  if (!model.vocabulary) {
    const std::string text = printable(model.vocabulary.error().text);
    return page.line("", fmt::format("{}{}{}", page.style().warning, text, page.style().plain));
  }
  const Tokenizer& tokenizer = **model.vocabulary;
  page.line("begins with", describe_token(tokenizer, tokenizer.bos()) + (tokenizer.adds_bos() ? "" : " (not added)"));
  page.line("ends with", describe_token(tokenizer, tokenizer.eos()));
  std::string stops;
  for (const Token token : tokenizer.stop_tokens())
    stops += (stops.empty() ? "" : ", ") + describe_token(tokenizer, token);
  page.line("stops at", stops.empty() ? "none" : stops);
}

void describe_template(const ModelSummary& model, Page& page) {
  if (!model.chat_template) return page.line("chat template", "none");
  std::string_view rest = *model.chat_template;
  const auto lines = static_cast<size_t>(std::ranges::count(rest, '\n')) + 1;
  page.line("chat template", fmt::format("{} lines, {} bytes; all of it with --template", lines, rest.size()));
  for (size_t i = 0; i < std::min(lines, kTemplateLines); ++i) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    page.raw("  " + shortened(line, kTemplateColumns));
  }
  if (lines > kTemplateLines) page.raw("  ...");
}

std::string item(const NumberArray& array, size_t i) {
  switch (array.type) {
    case NumberArray::Type::f32:
    case NumberArray::Type::f64:
      return fmt::format("{:.6g}", array.number(i));
    case NumberArray::Type::boolean:
      return array.integer(i) ? "true" : "false";
    default:
      return std::to_string(array.integer(i));
  }
}
std::string item(const StringArray& array, size_t i) {
  return "\"" + shortened(array[i], kTextBytes) + "\"";
}

template <class Array>
std::string describe_array(const Array& array, size_t size) {
  std::string out;
  for (size_t i = 0; i < std::min(size, kArrayItems); ++i) out += (i ? ", " : "") + item(array, i);
  return size <= kArrayItems ? fmt::format("[{}]", out) : fmt::format("[{}, ...] ({} in all)", out, size);
}

struct DescribeValue {
  std::string operator()(std::string_view text) const { return shortened(text, kTextBytes); }
  std::string operator()(const NumberArray& array) const { return describe_array(array, array.size); }
  std::string operator()(const StringArray& array) const { return describe_array(array, array.size()); }
  std::string operator()(double number) const { return fmt::format("{:.6g}", number); }
  std::string operator()(auto scalar) const { return fmt::format("{}", scalar); }
};

}  // namespace

std::string describe(const ModelSummary& model, const Style& style) {
  Page page(style);
  page.raw(fmt::format("{}{}{}", style.bold, shortened(model.name, kTextBytes), style.plain));
  for (const std::string& file : model.files) page.line(&file == &model.files.front() ? "file" : "", shown(file));
  page.line("size", human_bytes(model.bytes));
  page.line("architecture", model.architecture.empty() ? "not said" : shortened(model.architecture, kTextBytes));
  page.line("parameters", human_count(model.parameters));
  for (const HyperParameter& row : model.hyper_parameters) page.line(std::string(row.label), std::to_string(row.value));
  page.line("context", model.context_length ? fmt::format("{} tokens", *model.context_length) : "not said");
  describe_formats(model, page);
  describe_vocabulary(model, page);
  describe_template(model, page);
  return page.take();
}

std::string describe_metadata(const ModelFile& file, const Style& style) {
  size_t width = 0;
  for (const auto& [key, value] : file.metadata()) width = std::max(width, std::min(key.size(), kTextBytes));
  std::string out;
  for (const auto& [key, value] : file.metadata()) {
    out += fmt::format("{}{:<{}}{}  {}\n", style.dim, shortened(key, kTextBytes), width, style.plain,
                       std::visit(DescribeValue(), value));
  }
  return out;
}

}  // namespace martlet::cli
