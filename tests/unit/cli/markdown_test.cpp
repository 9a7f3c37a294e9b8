#include "cli/chat/markdown.h"

#include <gtest/gtest.h>

#include <clocale>

#include "cli/chat/markdown_stream.h"
#include "cli/chat/text_layout.h"

namespace martlet::cli {
namespace {

using Lines = std::vector<std::string>;

Lines render(std::string_view source, int width = 40, bool colours = false) {
  std::setlocale(LC_CTYPE, "C.UTF-8");
  return render_markdown(source, {width, colours});
}

TEST(Markdown, ParagraphsAndHeadings) {
  EXPECT_EQ(render("# Title\n\nSome *text* with **weight**.\nNext line."),
            (Lines{"Title", "", "Some text with weight.", "Next line."}));
}

TEST(Markdown, WrapsBetweenWordsAndBreaksLongOnes) {
  EXPECT_EQ(render("one two three four", 9), (Lines{"one two", "three", "four"}));
  EXPECT_EQ(render("abcdefghijklmnop", 10), (Lines{"abcdefghij", "klmnop"}));
  EXPECT_EQ(render("\u6f22\u5b57\u6f22\u5b57\u6f22", 8), (Lines{"\u6f22\u5b57\u6f22\u5b57", "\u6f22"}))
      << "wide characters";
}

TEST(Markdown, Lists) {
  EXPECT_EQ(render("- one\n- two\n  - inner\n- three"),
            (Lines{"\u2022 one", "\u2022 two", "  \u2022 inner", "\u2022 three"}));
  EXPECT_EQ(render("3. three\n4. four"), (Lines{"3. three", "4. four"}));
  EXPECT_EQ(render("- a word too many", 10), (Lines{"\u2022 a word", "  too many"}));
}

TEST(Markdown, CodeBlocksHaveAGutterAndKeepTheirLines) {
  EXPECT_EQ(render("Run:\n\n```sh\nls  -l\n\n\tcd\n```"),
            (Lines{"Run:", "", "\u2502 ls  -l", "\u2502 ", "\u2502     cd"}));
  EXPECT_EQ(render("- see\n\n  ```\n  x\n  ```"), (Lines{"\u2022 see", "  \u2502 x"}));
}

TEST(Markdown, QuotesTablesEntities) {
  EXPECT_EQ(render("> said"), (Lines{"\u2502 said"}));
  EXPECT_EQ(render("|a|b|\n|---|---|\n|1|2|"), (Lines{"a \u2502 b", "1 \u2502 2"}));
  EXPECT_EQ(render("a &lt; b &unknown;"), (Lines{"a < b &unknown;"}));
  EXPECT_EQ(render("<b>not html</b>"), (Lines{"<b>not html</b>"}));
}

TEST(Markdown, ColoursEndWithTheLine) {
  EXPECT_EQ(render("**bold** plain", 40, true), (Lines{"\x1b[0;1mbold\x1b[0m plain"}));
  EXPECT_EQ(render("**bold**", 40, true), (Lines{"\x1b[0;1mbold\x1b[0m"}));
}

TEST(Markdown, KnowsWhichBlocksAreFinished) {
  EXPECT_EQ(finished_blocks("one line\nand more"), 0u);
  EXPECT_EQ(finished_blocks("one\n\n"), 0u) << "what follows may belong to it";
  EXPECT_EQ(finished_blocks("one\n\nt"), 5u);
  EXPECT_EQ(finished_blocks("- one\n\n  more of it"), 0u);
  EXPECT_EQ(finished_blocks("```\na\n\nb\n"), 0u);
  EXPECT_EQ(finished_blocks("```\na\n\nb\n```\n"), 13u);
  EXPECT_EQ(finished_blocks("text\n```py\n"), 5u);
  EXPECT_EQ(finished_blocks("~~~\n```\n\nx\n"), 0u) << "another fence's character closes nothing";
}

// A terminal of the few sequences that the stream writes.
struct Screen {
  Lines lines{""};
  size_t row = 0;

  void write(const std::string& text) {
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '\n') {
        if (++row == lines.size()) lines.emplace_back();
      } else if (text[i] == '\r') {
        ASSERT_EQ(text.compare(i + 1, 3, "\x1b[J"), 0);
        lines.resize(row + 1);
        lines[row].clear();
        i += 3;
      } else if (text[i] == '\x1b') {
        size_t end = i + 2;
        while (std::isdigit(static_cast<unsigned char>(text[end]))) ++end;
        ASSERT_EQ(text[end], 'A');
        row -= std::stoul(text.substr(i + 2, end - i - 2));
        i = end;
      } else {
        lines[row] += text[i];
      }
    }
  }
};

TEST(MarkdownStream, ShowsInPiecesWhatItShowsAtOnce) {
  const std::string source =
      "# Head\n\nSome **bold** text that is long enough to wrap over lines.\n\n- a\n- b\n  1. c\n\n```py\nx = 1\n\ny = "
      "2\n```\nEnd *here*.\n\n> q\n";
  Lines expected = render(source, 39);
  expected.emplace_back();
  for (const size_t piece : {size_t{1}, size_t{3}, size_t{1000}}) {
    Screen screen;
    MarkdownStream stream(
        false,
        [] {
          return ScreenSize{40, 50};
        },
        [&](const std::string& text) { screen.write(text); });
    for (size_t at = 0; at < source.size(); at += piece) {
      stream.push(source.substr(at, piece));
      stream.push("");
    }
    stream.finish();
    EXPECT_EQ(screen.lines, expected) << piece;
  }
}

TEST(MarkdownStream, TheModelDoesNotSteerTheTerminal) {
  std::string out;
  MarkdownStream stream(
      false, [] { return ScreenSize{}; }, [&](const std::string& text) { out += text; });
  stream.push("a\x1b[2Jb\x07\r");
  stream.push("\u009b31mc");
  stream.finish();
  EXPECT_EQ(out.find("\x1b[2J"), std::string::npos);
  EXPECT_EQ(out.find('\x07'), std::string::npos);
  EXPECT_EQ(out.find("\xc2\x9b"), std::string::npos);
}

TEST(MarkdownStream, LeavesAloneWhatHasLeftTheScreen) {
  size_t furthest = 0;
  MarkdownStream stream(
      false,
      [] {
        return ScreenSize{40, 5};
      },
      [&](const std::string& text) {
        const size_t at = text.find("\x1b[");
        if (at != std::string::npos && text.find('A', at) != std::string::npos)
          furthest = std::max(furthest, std::stoul(text.substr(at + 2)));
      });
  std::string source = "```\n";
  for (int i = 0; i < 30; ++i) source += "line\n";
  stream.push(source);
  stream.finish();
  stream.push("**one\n" + std::string(300, 'x') + " ");
  stream.push("two**");  // changes all lines
  stream.finish();
  EXPECT_LT(furthest, 5u);
}

}  // namespace
}  // namespace martlet::cli
