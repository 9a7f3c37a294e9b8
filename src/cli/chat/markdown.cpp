#include "cli/chat/markdown.h"

#include <md4c.h>

#include <algorithm>

#include "cli/chat/text_layout.h"

namespace martlet::cli {
namespace {

constexpr std::string_view kBullet = "\u2022 ", kGutter = "\u2502 ", kRule = "\u2500", kCell = " \u2502 ";
constexpr int kRuleColumns = 40;

struct Entity {
  std::string_view name, text;
};
constexpr Entity kEntities[] = {{"&amp;", "&"},   {"&lt;", "<"},   {"&gt;", ">"},
                                {"&quot;", "\""}, {"&nbsp;", " "}, {"&#39;", "'"}};

std::string_view entity(std::string_view name) {
  const auto* found = std::ranges::find(kEntities, name, &Entity::name);
  return found == std::end(kEntities) ? name : found->text;
}

// Receives md4c's events and lays each leaf block out as it ends.
class Renderer {
 public:
  explicit Renderer(const MarkdownOptions& options) : options_(options) {}

  void enter(MD_BLOCKTYPE type, void* detail);
  void leave(MD_BLOCKTYPE type);
  void enter(MD_SPANTYPE type) { spans_.push_back(style_of(type)); }
  void leave(MD_SPANTYPE) { spans_.pop_back(); }
  void text(MD_TEXTTYPE type, std::string_view text);

  std::vector<std::string> take() { return std::move(lines_); }

 private:
  struct List {
    bool ordered;
    unsigned number;
  };

  static uint8_t style_of(MD_SPANTYPE type);
  void open_item();
  void finish_leaf(bool wrap);
  void finish_code();
  void rule();
  void separate();
  Indent take_indent();

  const MarkdownOptions& options_;
  std::vector<std::string> lines_;
  std::vector<StyledText> leaf_;
  std::vector<uint8_t> spans_;
  uint8_t block_style_ = kPlain;
  std::vector<Indent> containers_;  // quotes and list items; `first` is used up by the first line
  std::vector<List> lists_;
};

uint8_t Renderer::style_of(MD_SPANTYPE type) {
  switch (type) {
    case MD_SPAN_STRONG:
      return kBold;
    case MD_SPAN_EM:
      return kItalic;
    case MD_SPAN_CODE:
      return kCode;
    case MD_SPAN_A:
      return kUnderline;
    case MD_SPAN_DEL:
      return kStrike;
    default:
      return kPlain;
  }
}

void Renderer::enter(MD_BLOCKTYPE type, void* detail) {
  switch (type) {
    case MD_BLOCK_QUOTE:
      containers_.push_back({std::string(kGutter), std::string(kGutter)});
      break;
    case MD_BLOCK_UL:
      if (lists_.empty()) separate();
      lists_.push_back({false, 0});
      break;
    case MD_BLOCK_OL:
      if (lists_.empty()) separate();
      lists_.push_back({true, static_cast<MD_BLOCK_OL_DETAIL*>(detail)->start});
      break;
    case MD_BLOCK_LI:
      open_item();
      break;
    case MD_BLOCK_H:
    case MD_BLOCK_TH:
      block_style_ = kHeading;
      [[fallthrough]];
    case MD_BLOCK_P:
    case MD_BLOCK_CODE:
    case MD_BLOCK_TABLE:
      if (type != MD_BLOCK_TH && lists_.empty()) separate();
      if (type == MD_BLOCK_CODE) block_style_ = kCode;
      break;
    case MD_BLOCK_HR:
      rule();
      break;
    default:
      break;
  }
}

void Renderer::leave(MD_BLOCKTYPE type) {
  switch (type) {
    case MD_BLOCK_QUOTE:
      containers_.pop_back();
      break;
    case MD_BLOCK_UL:
    case MD_BLOCK_OL:
      lists_.pop_back();
      break;
    case MD_BLOCK_LI:  // a tight item's text is in no paragraph; an empty item still shows its mark
      if (!leaf_.empty() || !containers_.back().first.empty()) finish_leaf(true);
      containers_.pop_back();
      break;
    case MD_BLOCK_H:
    case MD_BLOCK_P:
      finish_leaf(true);
      break;
    case MD_BLOCK_CODE:
      finish_code();
      break;
    case MD_BLOCK_TH:
    case MD_BLOCK_TD:
      leaf_.push_back({std::string(kCell), kDim});
      block_style_ = kPlain;
      break;
    case MD_BLOCK_TR:
      if (!leaf_.empty()) leaf_.pop_back();
      finish_leaf(false);
      break;
    default:
      break;
  }
}

void Renderer::text(MD_TEXTTYPE type, std::string_view text) {
  uint8_t style = block_style_;
  for (const uint8_t span : spans_) style |= span;
  switch (type) {
    case MD_TEXT_BR:
    case MD_TEXT_SOFTBR:
      leaf_.push_back({"\n", style});
      break;  // models mean the line breaks that they write
    case MD_TEXT_NULLCHAR:
      leaf_.push_back({"\uFFFD", style});
      break;
    case MD_TEXT_ENTITY:
      leaf_.push_back({std::string(entity(text)), style});
      break;
    default:
      leaf_.push_back({std::string(text), style});
      break;
  }
}

void Renderer::open_item() {
  if (!leaf_.empty()) finish_leaf(true);  // the text of the tight item that holds this list
  List& list = lists_.back();
  const std::string mark = list.ordered ? std::to_string(list.number++) + ". " : std::string(kBullet);
  containers_.push_back({mark, std::string(static_cast<size_t>(columns_of(mark)), ' ')});
}

// The marks of all containers; each item's own mark only before its first line.
Indent Renderer::take_indent() {
  Indent indent;
  for (Indent& container : containers_) {
    indent.first += container.first.empty() ? container.rest : container.first;
    indent.rest += container.rest;
    container.first.clear();
  }
  return indent;
}

void Renderer::finish_leaf(bool wrap) {
  const Indent indent = take_indent();
  for (std::string& line : lay_out(leaf_, indent, options_.width, wrap, options_.colours))
    lines_.push_back(std::move(line));
  leaf_.clear();
  block_style_ = kPlain;
}

void Renderer::finish_code() {
  std::string code;
  for (const StyledText& piece : leaf_) code += piece.text;
  while (code.ends_with('\n')) code.pop_back();
  for (size_t tab = code.find('\t'); tab != std::string::npos; tab = code.find('\t', tab)) code.replace(tab, 1, "    ");
  Indent indent = take_indent();
  indent.first += kGutter;
  indent.rest += kGutter;
  for (std::string& line : lay_out({{code, kCode}}, indent, options_.width, false, options_.colours))
    lines_.push_back(std::move(line));
  leaf_.clear();
  block_style_ = kPlain;
}

void Renderer::rule() {
  separate();
  std::string line;
  for (int i = 0; i < std::min(kRuleColumns, options_.width); ++i) line += kRule;
  leaf_.push_back({line, kDim});
  finish_leaf(false);
}

void Renderer::separate() {
  if (!lines_.empty()) lines_.emplace_back();
}

// Whether `line` opens or closes a fence: its character and how many of it, or 0.
struct Fence {
  char character = 0;
  size_t count = 0, indent = 0;
  bool bare = false;  // nothing follows: may close one
};

Fence parse_fence(std::string_view line) {
  Fence fence;
  fence.indent = std::min(line.find_first_not_of(' '), line.size());
  line.remove_prefix(fence.indent);
  if (line.empty() || (line[0] != '`' && line[0] != '~')) return {};
  fence.character = line[0];
  fence.count = std::min(line.find_first_not_of(line[0]), line.size());
  line.remove_prefix(fence.count);
  fence.bare = line.find_first_not_of(" \t") == std::string_view::npos;
  const bool info_ok = fence.character == '~' || line.find('`') == std::string_view::npos;
  return fence.count >= 3 && info_ok ? fence : Fence();
}

// Finds block boundaries line by line.
struct Splitter {
  size_t finished = 0;
  Fence open;
  bool blank_before = false, any = false;

  void line(std::string_view text, size_t begin, size_t next, bool complete) {
    const Fence fence = parse_fence(text);
    if (open.count > 0) {
      if (!complete || fence.character != open.character || fence.count < open.count || !fence.bare) return;
      // A fence inside a list item ends no block: the item may go on.
      if (open.indent == 0) finished = next;
      open = {};
      blank_before = false;
      return;
    }
    const bool blank = text.find_first_not_of(" \t") == std::string_view::npos;
    const bool starts = !blank && text[0] != ' ' && text[0] != '\t';
    if (any && starts && (blank_before || (fence.count > 0 && complete))) finished = begin;
    if (fence.count > 0 && complete) open = fence;
    blank_before = blank;
    any = any || !blank;
  }
};

}  // namespace

std::vector<std::string> render_markdown(std::string_view source, const MarkdownOptions& options) {
  Renderer renderer(options);
  MD_PARSER parser{};
  parser.flags = MD_FLAG_TABLES | MD_FLAG_STRIKETHROUGH | MD_FLAG_NOHTML;
  parser.enter_block = [](MD_BLOCKTYPE type, void* detail, void* data) {
    return static_cast<Renderer*>(data)->enter(type, detail), 0;
  };
  parser.leave_block = [](MD_BLOCKTYPE type, void*, void* data) {
    return static_cast<Renderer*>(data)->leave(type), 0;
  };
  parser.enter_span = [](MD_SPANTYPE type, void*, void* data) { return static_cast<Renderer*>(data)->enter(type), 0; };
  parser.leave_span = [](MD_SPANTYPE type, void*, void* data) { return static_cast<Renderer*>(data)->leave(type), 0; };
  parser.text = [](MD_TEXTTYPE type, const MD_CHAR* text, MD_SIZE size, void* data) {
    return static_cast<Renderer*>(data)->text(type, {text, size}), 0;
  };
  md_parse(source.data(), static_cast<MD_SIZE>(source.size()), &parser, &renderer);
  return renderer.take();
}

size_t finished_blocks(std::string_view source) {
  Splitter splitter;
  for (size_t begin = 0; begin < source.size();) {
    const size_t newline = source.find('\n', begin);
    const bool complete = newline != std::string_view::npos;
    const size_t end = complete ? newline : source.size();
    splitter.line(source.substr(begin, end - begin), begin, complete ? newline + 1 : end, complete);
    begin = complete ? newline + 1 : end;
  }
  return splitter.finished;
}

}  // namespace martlet::cli
