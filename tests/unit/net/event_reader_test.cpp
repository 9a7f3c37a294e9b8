#include "net/event_reader.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace martlet::net {
namespace {

TEST(EventReader, ReadsEventsHoweverTheyAreCut) {
  const std::string bytes = ": comment\r\n\ndata: a\n\nevent: x\ndata:b\ndata: c\r\n\r\nid: 1\n\ndata\n\n";
  for (size_t cut = 1; cut <= bytes.size(); ++cut) {
    EventReader reader;
    std::vector<std::string> seen;
    for (size_t at = 0; at < bytes.size(); at += cut) {
      ASSERT_TRUE(reader.add(std::string_view(bytes).substr(at, cut)));
      while (auto event = reader.next()) seen.push_back(event->name + "/" + event->data);
    }
    EXPECT_EQ(seen, (std::vector<std::string>{"/a", "x/b\nc", "/"})) << cut;
  }
}

TEST(EventReader, AnEventThatIsReusedHoldsNothingOfTheOneBefore) {
  EventReader reader;
  Event event{"old", "older"};
  ASSERT_TRUE(reader.add("event: x\ndata: long text\n\ndata: b\n\nevent: y\n\n"));
  ASSERT_TRUE(reader.next(event));
  EXPECT_EQ(event.name + "/" + event.data, "x/long text");
  ASSERT_TRUE(reader.next(event));
  EXPECT_EQ(event.name + "/" + event.data, "/b");
  EXPECT_FALSE(reader.next(event)) << "an event without data";
  EXPECT_FALSE(reader.inside());
}

TEST(EventReader, H3_AnEndlessLineIsRefused) {
  EventReader reader(1000);
  EXPECT_TRUE(reader.add(std::string(900, 'x')));
  EXPECT_FALSE(reader.next());
  EXPECT_FALSE(reader.add(std::string(200, 'x')));
  EventReader lines(1000);
  bool fits = true;
  for (int i = 0; i < 100 && fits; ++i) {
    fits = lines.add("data: " + std::string(20, 'x') + "\n");
    EXPECT_FALSE(lines.next());
  }
  EXPECT_FALSE(fits) << "many lines of one event";
}

}  // namespace
}  // namespace martlet::net
