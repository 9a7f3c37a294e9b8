// No byte of a user ever counts as the template's own, whatever the template does with it (FAULTS B4).

#include <gtest/gtest.h>

#include "chat/chat_template.h"
#include "chat/vectors.h"

namespace martlet {
namespace {

// Letters that no template contains: private use code points, as UTF-8.
constexpr const char* kMarkers[] = {"\ue000", "\ue001", "\ue002", "\ue003"};

bool holds_marker(std::string_view text) {
  return text.find("\xee\x80") != text.npos;
}

// Words that decide what a template does stay; everything else that a user could write gets a marker between any two
// bytes of ASCII, so that trimming, splitting and replacing cut the text at all kinds of places.
std::string marked(std::string_view text) {
  std::string out = kMarkers[0];
  size_t index = 0;
  for (const char c : text) {
    out += c;
    if (static_cast<unsigned char>(c) < 0x80) out += kMarkers[++index % 4];
  }
  return out;
}

bool decides(std::string_view key) {
  return key == "role" || key == "type" || key == "id" || key == "tool_call_id";
}

void mark(boost::json::value& value, bool mark_keys) {
  if (value.is_string()) {
    value = marked(std::string(value.get_string()));
  } else if (value.is_array()) {
    for (auto& item : value.get_array()) mark(item, mark_keys);
  } else if (value.is_object()) {
    boost::json::object out;
    for (auto& [key, item] : value.get_object()) {
      boost::json::value copy = item;
      if (!decides(key)) mark(copy, mark_keys || key == "arguments" || key == "properties");
      out[mark_keys ? marked(key) : std::string(key)] = std::move(copy);
    }
    value = std::move(out);
  }
}

void expect_clean(const Rendered& rendered) {
  size_t end = 0;
  for (const Span& span : rendered.trusted) {
    ASSERT_LE(end, span.begin);
    ASSERT_LT(span.begin, span.end);
    ASSERT_LE(span.end, rendered.text.size());
    end = span.end;
    const std::string_view text = std::string_view(rendered.text).substr(span.begin, span.end - span.begin);
    EXPECT_FALSE(holds_marker(text)) << "a user's text is trusted: " << text;
  }
}

bool is_trusted(const Rendered& rendered, size_t begin, size_t size) {
  for (const Span& span : rendered.trusted) {
    if (span.begin <= begin && begin + size <= span.end) return true;
  }
  return false;
}

class Trusted : public testing::TestWithParam<std::string> {};

TEST_P(Trusted, B4_NoUserByte) {
  const auto parsed = ChatTemplate::parse(read_text(shared_path("vectors/templates/" + GetParam() + ".jinja")));
  ASSERT_TRUE(parsed);
  int shown = 0;
  for (const auto& [name, value] : read_json(shared_path("vectors/templates/" + GetParam() + ".json"))) {
    boost::json::object inputs = value.as_object().at("inputs").as_object();
    for (const char* key : {"messages", "tools"}) {
      if (inputs.contains(key)) mark(inputs[key], false);
    }
    const auto rendered = (*parsed)->render(inputs, vector_time(), patient());
    if (!rendered) continue;  // the marked conversation may be one that the template refuses
    SCOPED_TRACE(std::string(name));
    shown += holds_marker(rendered->text);
    expect_clean(*rendered);
    const size_t bos = rendered->text.find("<BOS>");
    if (bos != rendered->text.npos) {
      EXPECT_TRUE(is_trusted(*rendered, bos, 5));
    }
  }
  EXPECT_GT(shown, 0) << "no case showed a marker: the test is blind";
}

std::string test_name(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return !std::isalnum(c); }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Templates, Trusted, testing::ValuesIn(template_names()), test_name);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Trusted);

// clang-format off
// One expression for each filter and method that handles strings; `u` is what a user wrote.
constexpr const char* kExpressions[] = {
    "u|upper", "u|lower", "u|title", "u|capitalize", "u.swapcase()", "u|trim", "u.strip('A')", "u|reverse", "u[1:]",
    "u[::2]", "u[3]", "u|first", "u|last", "u|list|join('+')", "u|replace('A', 'TTT')", "'TaT'|replace('a', u)",
    "u|indent(2, true)", "u|center(99)", "u.ljust(99, '*')", "'T'.center(9, u[0])", "u|truncate(9, true)",
    "u|wordwrap(5)", "u|escape", "u|e ~ 'T'", "'T<' ~ (u|e)", "u|safe + '<T>'", "u|string", "u|urlencode",
    "u|striptags", "u|tojson", "[u]|tojson", "d|tojson(indent=2)", "[u]", "d", "(u, 'T')", "'%s T' % u",
    "'%5.3s|' % u", "u % ()", "'%(k)s' % {'k': u}", "'{} T {}'.format(u, 1)", "'{:>40}'.format(u)",
    "'{!r}'.format(u)", "u.format()", "'%s'|format(u)", "u.split()|join('T')", "u.split('A')|join('T')",
    "u.rsplit(' ', 1)|join('T')", "u.splitlines()|join('T')", "u.partition('b')|join('T')", "'T'.join(l)",
    "u.join(['T', 'T'])", "l|join('T')", "l|join(u)", "l|map('upper')|join", "l|sort|join", "l|unique|join",
    "d|dictsort", "d.items()|list", "d|list|join", "d.keys()|list", "d|first", "l|batch(1)|list",
    "l|groupby('x')|list|string ~ u", "u * 3", "3 * u", "u + 'T'", "'T' + u", "u ~ l ~ d", "(u if true else 'T')",
    "u or 'T'", "'' or u", "missing|default(u)", "l|max", "l|min", "u.expandtabs(2)", "u.zfill(99)",
    "u.removeprefix('A')", "u|string|upper|lower|trim ~ 'T'", "l|sum(start=[])|string ~ u if false else u",
    "d|xmlattr", "namespace(x=u).x", "namespace(x=u)", "cycler(u).next()", "joiner(u)() ~ u", "strftime_now(u)",
    "u|pprint", "l[0]", "d|map('upper')|join",
};
// clang-format on

TEST(TrustedText, KeptThroughEveryFunction) {
  const boost::json::object inputs = {{"u", marked("Ab <c>\n'd\" e-f, 5")},
                                      {"l", {marked("x"), marked("y z")}},
                                      {"d", {{marked("key"), marked("value")}}}};
  for (const char* expression : kExpressions) {
    for (const std::string& source :
         {"T{{ " + std::string(expression) + " }}T",
          "{% macro m(u) %}[T{{ " + std::string(expression) + " }}]{% endmacro %}{{ m(u)|trim }}",
          "{% set x %}T{{ " + std::string(expression) + " }}{% endset %}{{ x|upper }}",
          "{% filter replace('T', 'TT') %}T{{ " + std::string(expression) + " }}{% endfilter %}"}) {
      SCOPED_TRACE(source);
      const auto parsed = ChatTemplate::parse(source);
      ASSERT_TRUE(parsed) << parsed.error().line();
      const auto rendered = (*parsed)->render(inputs, vector_time(), patient());
      if (!rendered) continue;
      expect_clean(*rendered);
      EXPECT_TRUE(is_trusted(*rendered, rendered->text.find('T'), 1) || rendered->text[0] == '[') << rendered->text;
    }
  }
}

TEST(TrustedText, LiteralsStayTrusted) {
  const boost::json::object inputs = {{"bos_token", "<s>"}, {"u", "user"}, {"l", {"a", "b"}}};
  const struct {
    const char* source;
    const char* control;
  } kCases[] = {
      {"{{ bos_token }}{{ u }}", "<s>"},
      {"{{ '<|im_start|>' + u + '<|im_end|>' }}", "<|im_end|>"},
      {"{{ '<|im_start|>%s<|im_end|>' % u }}", "<|im_end|>"},
      {"{{ '<|im_start|>{}<|im_end|>'.format(u) }}", "<|im_end|>"},
      {"{{ ('<|im_start|>' ~ u ~ '<|im_end|>\n')|trim }}", "<|im_end|>"},
      {"{{ l|join('<|sep|>') }}", "<|sep|>"},
      {"{{ 'a$b'|replace('$', '<|sep|>') }}", "<|sep|>"},
      {"{% macro m(x) %}<|im_start|>{{ x }}{% endmacro %}{{ m(u)|upper|lower }}", "<|im_start|>"},
      {"{% set x %}<|im_start|>{{ u }}{% endset %}{{ x.strip() }}", "<|im_start|>"},
      {"{{ ('<|a|>,' ~ u ~ ',<|b|>').split(',')[2] }}", "<|b|>"},
      {"{% set t = {'user': '<|user|>'} %}{{ t[u] }}", "<|user|>"},
      {"{{ '<|x|>\n<|y|>'|indent(2) }}", "<|y|>"},
  };
  for (const auto& test : kCases) {
    const auto parsed = ChatTemplate::parse(test.source);
    ASSERT_TRUE(parsed) << test.source;
    const auto rendered = (*parsed)->render(inputs, vector_time(), patient());
    ASSERT_TRUE(rendered) << test.source << " " << rendered.error().line();
    const size_t at = rendered->text.find(test.control);
    ASSERT_NE(at, std::string::npos) << test.source;
    EXPECT_TRUE(is_trusted(*rendered, at, std::string_view(test.control).size())) << test.source;
    const size_t user = rendered->text.find("user");
    if (user != std::string::npos && test.control != std::string("<|user|>")) {
      EXPECT_FALSE(is_trusted(*rendered, user, 4)) << test.source;
    }
  }
}

// A control token that a user writes is no control token, even where the template's own text touches it.
TEST(TrustedText, TokensDoNotFormAcrossABorder) {
  const auto parsed = ChatTemplate::parse("{{ '<|im_' ~ u }}{{ u ~ 'end|>' }}");
  ASSERT_TRUE(parsed);
  const auto rendered = (*parsed)->render({{"u", "start|>"}}, vector_time(), patient());
  ASSERT_TRUE(rendered);
  EXPECT_EQ(rendered->text, "<|im_start|>start|>end|>");
  EXPECT_FALSE(is_trusted(*rendered, 0, 12));
}

}  // namespace
}  // namespace martlet
