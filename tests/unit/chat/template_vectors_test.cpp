// Every render of the reference vectors, exact, errors included; and what of it counts as the template's own text.

#include <gtest/gtest.h>

#include "chat/chat_template.h"
#include "chat/vectors.h"

namespace martlet {
namespace {

class TemplateVectors : public testing::TestWithParam<std::string> {
 protected:
  static std::string path(const char* suffix) { return shared_path("vectors/templates/" + GetParam() + suffix); }

  static std::shared_ptr<const ChatTemplate> parse() {
    auto parsed = ChatTemplate::parse(read_text(path(".jinja")));
    EXPECT_TRUE(parsed) << (parsed ? "" : parsed.error().line());
    return parsed ? *parsed : nullptr;
  }
};

TEST_P(TemplateVectors, Render) {
  const auto chat_template = parse();
  ASSERT_TRUE(chat_template);
  for (const auto& [name, value] : read_json(path(".json"))) {
    SCOPED_TRACE(std::string(name));
    const boost::json::object& expected = value.as_object();
    const auto rendered = chat_template->render(expected.at("inputs").as_object(), vector_time(), patient());
    if (expected.contains("error")) {
      EXPECT_FALSE(rendered);
      if (!rendered) {
        EXPECT_EQ(rendered.error().code, "template_error") << rendered.error().line();
      }
      continue;
    }
    ASSERT_TRUE(rendered) << rendered.error().line();
    EXPECT_EQ(rendered->text, std::string(expected.at("output").as_string()));
  }
}

std::string test_name(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return !std::isalnum(c); }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Templates, TemplateVectors, testing::ValuesIn(template_names()), test_name);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(TemplateVectors);

TEST(TemplateVectorsPresent, Folder) {
  MARTLET_NEEDS_SHARED("vectors/templates");
  EXPECT_GE(template_names().size(), 30u);
}

}  // namespace
}  // namespace martlet
