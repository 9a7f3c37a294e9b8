#include "chat/prompt.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <set>

#include "chat/vectors.h"
#include "file/gguf_writer.h"

namespace martlet {
namespace {

namespace json = boost::json;

// Two control tokens and nothing else.
class TinyTokenizer : public Tokenizer {
 public:
  TinyTokenizer() { bos_ = 0, eos_ = 1; }
  void encode(std::string_view, std::span<const Span>, std::vector<Token>&) const override {}
  std::string_view bytes(Token token, bool) const override { return piece(token); }
  std::string decode(std::span<const Token>, bool) const override { return {}; }
  bool strips_leading_space() const override { return false; }
  int32_t size() const override { return 2; }
  TokenKind kind(Token) const override { return TokenKind::control; }
  std::string_view piece(Token token) const override { return token == 0 ? "<s>" : "</s>"; }
  Token find(std::string_view) const override { return -1; }
};

std::shared_ptr<const ChatTemplate> parse(std::string_view source) {
  auto parsed = ChatTemplate::parse(source);
  EXPECT_TRUE(parsed) << (parsed ? "" : parsed.error().line());
  return parsed ? *parsed : nullptr;
}

Result<Rendered> render(std::string_view source, const json::object& inputs) {
  return render_chat(*parse(source), TinyTokenizer(), inputs, vector_time());
}

std::string text(std::string_view source, const json::object& inputs) {
  const auto rendered = render(source, inputs);
  return rendered ? rendered->text : rendered.error().code + " " + rendered.error().where;
}

const char* const kPlain =
    "{{ bos_token }}{% for m in messages %}<{{ m.role }}>{{ m.content }}{{ eos_token }}{% endfor %}";
const char* const kEither =
    "{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}{{ p.text }}"
    "{% endfor %}{% endif %}{% endfor %}";
const char* const kParts = "{% for m in messages %}{% for p in m.content %}{{ p['text'] }}{% endfor %}{% endfor %}";

json::object conversation(json::value content) {
  return {{"messages", {{{"role", "user"}, {"content", std::move(content)}}}}};
}
json::array parts() {
  return {{{"type", "text"}, {"text", "a"}}, {{"type", "text"}, {"text", "b"}}};
}

TEST(Prompt, ContentIsFoundByProbing) {
  EXPECT_EQ(parse(kPlain)->content(), ChatTemplate::Content::strings);
  EXPECT_EQ(parse(kEither)->content(), ChatTemplate::Content::either);
  EXPECT_EQ(parse(kParts)->content(), ChatTemplate::Content::parts);
  EXPECT_EQ(parse("{{ raise_exception('no') }}")->content(), ChatTemplate::Content::strings);
}

TEST(Prompt, ContentTakesTheShapeThatTheTemplateWants) {
  EXPECT_EQ(text(kPlain, conversation("a")), "<s><user>a</s>");
  EXPECT_EQ(text(kPlain, conversation(parts())), "<s><user>a\nb</s>");
  EXPECT_EQ(text(kEither, conversation(parts())), "ab");
  EXPECT_EQ(text(kParts, conversation("a")), "a");
  EXPECT_EQ(text(kPlain, conversation(nullptr)), "<s><user>None</s>");
}

TEST(Prompt, B10_BadMessagesNameTheField) {
  EXPECT_EQ(text(kPlain, {}), "invalid_messages messages");
  EXPECT_EQ(text(kPlain, {{"messages", json::array()}}), "invalid_messages messages");
  EXPECT_EQ(text(kPlain, {{"messages", {1}}}), "invalid_messages messages[0].role");
  EXPECT_EQ(text(kPlain, {{"messages", {{{"role", "user"}, {"content", "a"}}, {{"content", "b"}}}}}),
            "invalid_messages messages[1].role");
  EXPECT_EQ(text(kPlain, conversation(1)), "invalid_messages messages[0].content");
  EXPECT_EQ(text(kPlain, conversation(json::array{{{"type", "image_url"}}})), "invalid_messages messages[0].content");
}

TEST(Prompt, B10_TenThousandMessages) {
  json::array messages;
  for (int i = 0; i < 10'000; ++i)
    messages.push_back({{"role", i % 2 ? "assistant" : "user"}, {"content", "some words"}});
  const auto chat_template = parse(kPlain);
  EXPECT_TRUE(chat_template->render({{"messages", messages}}, vector_time(), {.time = std::chrono::seconds(20)}));
}

TEST(Prompt, B8_InputsCannotReplaceTheLanguage) {
  for (const char* name : {"bos_token", "eos_token", "raise_exception", "range", "namespace", "strftime_now"}) {
    json::object inputs = conversation("a");
    inputs[name] = "x";
    EXPECT_EQ(text(kPlain, inputs), std::string("unsupported_parameter ") + name);
  }
}

TEST(Prompt, ToolsAndDocumentsAreNullWhenAbsent) {
  EXPECT_EQ(text("{{ tools is none }}{{ documents is none }}{{ enable_thinking is defined }}", conversation("a")),
            "TrueTrueFalse");
}

// What Hugging Face passes beside a case's own inputs changes no reference render; two templates are made for tools
// and loop over them unasked, so they refuse to be without, as they do there.
TEST(Prompt, NullsChangeNoVector) {
  MARTLET_NEEDS_SHARED("vectors/templates");
  std::set<std::string> refused;
  for (const std::string& name : template_names()) {
    const auto chat_template = parse(read_text(shared_path("vectors/templates/" + name + ".jinja")));
    for (const auto& [key, value] : read_json(shared_path("vectors/templates/" + name + ".json"))) {
      if (!value.as_object().contains("output")) continue;
      json::object inputs = value.as_object().at("inputs").as_object();
      inputs.emplace("tools", nullptr);
      inputs.emplace("documents", nullptr);
      const auto rendered = chat_template->render(inputs, vector_time(), patient());
      if (!rendered) {
        refused.insert(name);
        continue;
      }
      EXPECT_EQ(rendered->text, std::string(value.as_object().at("output").as_string())) << name;
    }
  }
  EXPECT_EQ(refused, (std::set<std::string>{"CohereForAI-c4ai-command-r-plus-tool_use",
                                            "NousResearch-Hermes-3-Llama-3.1-8B-tool_use"}));
}

// A model file with these templates and nothing else.
std::shared_ptr<const ModelFile> model_with(std::initializer_list<std::pair<const char*, const char*>> templates) {
  gguf::Writer writer;
  writer.add("general.architecture", "llama");
  for (const auto& [key, source] : templates) writer.add(key, source);
  const std::string path = testing::TempDir() + "martlet_prompt_test" + std::to_string(getpid()) + ".gguf";
  std::ofstream(path, std::ios::binary) << writer.header();
  auto file = ModelFile::open(path);
  EXPECT_TRUE(file) << (file ? "" : file.error().line());
  return file ? *file : nullptr;
}

std::string chosen(const ModelFile& file, bool with_tools) {
  const auto loaded = load_chat_template(file, with_tools);
  if (!loaded) return loaded.error().code;
  const auto rendered = (*loaded)->render({}, vector_time());
  return rendered ? rendered->text : rendered.error().code;
}

TEST(Prompt, TemplatesOfAModel) {
  EXPECT_EQ(chosen(*model_with({}), false), "no_chat_template");
  EXPECT_EQ(chosen(*model_with({{"tokenizer.chat_template", "plain"}}), true), "plain");
  const auto both = model_with({{"tokenizer.chat_template", "plain"}, {"tokenizer.chat_template.tool_use", "tools"}});
  EXPECT_EQ(chosen(*both, false), "plain");
  EXPECT_EQ(chosen(*both, true), "tools");
  EXPECT_EQ(chosen(*model_with({{"tokenizer.chat_template.default", "named"}}), false), "named");
  EXPECT_EQ(chosen(*model_with({{"tokenizer.chat_template", "{% if %}"}}), false), "template_unsupported");
}

}  // namespace
}  // namespace martlet
