// Small templates, held to what Python's jinja2 makes of them (tools/golden_jinja.py).

#include <gtest/gtest.h>

#include "chat/chat_template.h"
#include "chat/vectors.h"

namespace martlet {
namespace {

// What our interpreter makes of one template; nullopt when it refuses, at parsing or at rendering.
std::optional<std::string> render(std::string_view source, const boost::json::object& inputs, std::string& reason) {
  const auto parsed = ChatTemplate::parse(source);
  if (!parsed) return reason = parsed.error().line(), std::nullopt;
  const auto rendered = (*parsed)->render(inputs, vector_time(), patient());
  if (!rendered) return reason = rendered.error().line(), std::nullopt;
  return rendered->text;
}

TEST(JinjaGolden, SameAsJinja2) {
  const boost::json::object golden = read_json("tests/golden/jinja/cases.json");
  const boost::json::object& inputs = golden.at("inputs").as_object();
  ASSERT_GE(golden.at("cases").as_array().size(), 1000u);
  for (const auto& value : golden.at("cases").as_array()) {
    const boost::json::object& expected = value.as_object();
    const std::string source(expected.at("template").as_string());
    std::string reason;
    const auto output = render(source, inputs, reason);
    if (expected.contains("error")) {
      EXPECT_FALSE(output) << source << "\n  jinja2 raises " << expected.at("error") << ", ours printed: " << *output;
    } else if (!output) {
      ADD_FAILURE() << source << "\n  refused: " << reason << "\n  jinja2: " << expected.at("output");
    } else {
      EXPECT_EQ(*output, std::string(expected.at("output").as_string())) << source;
    }
  }
}

}  // namespace
}  // namespace martlet
