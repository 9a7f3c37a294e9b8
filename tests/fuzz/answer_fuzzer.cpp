// Answers of upstreams as a network delivers them: the first byte says into how large pieces the rest is cut. However
// it is cut, head, body and events must be the same. And their metrics, whose counts must be numbers to reckon with.

#include <cstdlib>
#include <string>
#include <vector>

#include "gateway/body.h"
#include "gateway/draft_counters.h"
#include "gateway/token_prompt.h"
#include "net/event_reader.h"
#include "net/http_response_parser.h"

namespace {

using martlet::net::HttpResponseParser;

struct Verdict {
  HttpResponseParser::State state = HttpResponseParser::State::head;
  int status = 0;
  std::string body;
  std::vector<std::string> events;
  bool operator==(const Verdict&) const = default;
};

// Both stop where bytes of an answer are bad; how much of its body came before that depends on the cut, so it is
// dropped.
Verdict parse(std::string_view bytes, size_t step) {
  HttpResponseParser parser;
  martlet::net::EventReader reader(4096);
  std::string buffer;
  Verdict out;
  bool reading = true;
  for (size_t at = 0; at < bytes.size(); at += step) {
    buffer += bytes.substr(at, step);
    std::string piece;
    out.state = parser.advance(buffer, piece);
    if (out.state == HttpResponseParser::State::malformed) return {out.state, 0, {}, {}};
    out.body += piece;
    reading = reading && reader.add(piece);
    while (auto event = reading ? reader.next() : std::nullopt) out.events.push_back(event->name + "\n" + event->data);
  }
  out.status = parser.head().status;
  if (out.body.size() > 3000) out.events.clear();  // near the limit the cut decides
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const Verdict pieces = parse(bytes, data[0] % 64 + 1), whole = parse(bytes, bytes.size() + 1);
  if (!(pieces == whole)) std::abort();
  if (const auto counters = martlet::gateway::read_draft_counters(bytes)) {
    const bool sound = counters->drafted >= 0 && counters->drafted <= 0x1p53 && counters->accepted >= 0 &&
                       counters->accepted <= 0x1p53;
    if (!sound) std::abort();
  }
  for (const std::string& event : whole.events) {
    martlet::gateway::AnswerFacts facts;
    const std::string data = event.substr(event.find('\n') + 1);
    if (!martlet::gateway::inspect_answer(data, facts)) continue;
    martlet::gateway::ChatShape().event(data);
    martlet::gateway::ChatShape::whole(data);
  }
  return 0;
}
