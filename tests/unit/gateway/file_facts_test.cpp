#include "gateway/file_facts.h"

#include <gtest/gtest.h>

namespace martlet::gateway {
namespace {

Fingerprint facts_with(std::string_view source) {
  ModelFolder folder;
  folder.vocabulary.pieces = {"a", "b"};
  folder.chat_template = *ChatTemplate::parse(source);
  return facts_of(folder);
}

TEST(FileFacts, WhatChangesWithTheDateIsComparedWithFilesAlone) {
  const std::string chat = "{% for m in messages %}{{ m.content }}{% endfor %}";
  const Fingerprint plain = facts_with(chat);
  EXPECT_TRUE(plain.contains("template/text/0") && plain.contains("template/file/0"));
  for (const char* format : {"%d %b %Y", "%d", "%B", "%y"}) {
    const std::string date = std::string("{{ strftime_now('") + format + "') }}";
    const Fingerprint dated = facts_with(date + chat);
    EXPECT_FALSE(dated.contains("template/text/0")) << format;
    EXPECT_EQ(differences(dated, facts_with(date + chat)), std::vector<std::string>()) << format;
    EXPECT_EQ(differences(dated, facts_with(date + "!" + chat)), std::vector<std::string>{"template"}) << format;
  }
}

}  // namespace
}  // namespace martlet::gateway
