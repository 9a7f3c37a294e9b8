// Functions that every template can call.

#include <ctime>

#include "base/utf8.h"
#include "chat/jinja/objects.h"
#include "chat/jinja/represent.h"

namespace martlet::jinja {
namespace {

constexpr Integer kMaxRange = 100'000;  // as Jinja's sandbox

Value range(const Call& call) {
  const bool single = !call.argument(1);
  const Integer start = single ? 0 : call.integer(0), stop = call.integer(single ? 0 : 1), step = call.integer(2, 1);
  if (step == 0) fail("range() needs a step other than zero");
  const bool up = step > 0;
  const uint64_t low = static_cast<uint64_t>(up ? start : stop), high = static_cast<uint64_t>(up ? stop : start);
  const uint64_t distance = (up ? start < stop : start > stop) ? high - low : 0;
  const uint64_t stride = up ? static_cast<uint64_t>(step) : uint64_t{0} - static_cast<uint64_t>(step);
  const uint64_t count = distance == 0 ? 0 : (distance - 1) / stride + 1;
  if (count > kMaxRange) exceed("range() is longer than 100000 items");
  auto sequence = make<Sequence>();
  sequence->kind = Sequence::Kind::range;
  sequence->range = {start, stop, step};
  sequence->items.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    sequence->items.push_back(static_cast<Integer>(static_cast<uint64_t>(start) + i * static_cast<uint64_t>(step)));
  }
  return std::shared_ptr<const Sequence>(std::move(sequence));
}

// dict(mapping or pairs, name=value ...)
Dict build_dict(const Call& call) {
  Dict dict;
  if (call.all.positional.size() > 1) fail("dict() takes at most one positional argument");
  for (const Value& source : call.all.positional) {
    if (source.dict()) {
      dict = *source.dict();
      continue;
    }
    for (const Value& pair : items_of(source)) {
      const Items items = items_of(pair);
      if (items.size() != 2) fail("dict() wants pairs");
      dict.set(items[0], items[1]);
    }
  }
  for (const auto& [name, value] : call.all.named) dict.set(name, value);
  return dict;
}

Value make_namespace(const Call& call) {
  auto space = make<Namespace>();
  space->attributes = build_dict(call);
  call.interpreter.keep(space);
  return space;
}

Value cycler(const Call& call) {
  if (call.all.positional.empty() || !call.all.named.empty()) fail("cycler() takes one or more values");
  return make<Cycler>(call.all.positional);
}

// Only what the template itself wrote of the message is repeated in the error: inputs stay out of it.
Value raise_exception(const Call& call) {
  std::string message;
  const Text text = to_text(*call.argument(0));
  text.for_each_run([&message](std::string_view bytes, bool trusted) {
    message += trusted ? std::string(bytes) : std::string("...");
  });
  fail("the template refuses the conversation: " + std::string(utf8::head(message, 500)));
}

Value strftime_now(const Call& call) {
  const Text format = call.text(0);
  const std::time_t seconds = std::chrono::system_clock::to_time_t(call.interpreter.now());
  std::tm fields{};
  gmtime_r(&seconds, &fields);
  if (format.empty()) return format;
  if (format.size() > 1000) exceed("a date format is too long");
  // A sentinel tells an empty result from one that did not fit.
  const std::string pattern = std::string(format.view()) + "|";
  std::string out(16 * pattern.size() + 256, '\0');
  out.resize(std::strftime(out.data(), out.size(), pattern.c_str(), &fields));
  if (!out.empty()) out.pop_back();
  return Text(out, format.wholly_trusted());
}

constexpr Builtin kGlobals[] = {
    {"range", {"/start", "/stop", "/step"}, 1, range},
    {"dict", {"*"}, 0, [](const Call& call) { return make_dict(build_dict(call)); }},
    {"namespace", {"*"}, 0, make_namespace},
    {"cycler", {"*"}, 0, cycler},
    {"joiner", {"sep"}, 0, [](const Call& call) -> Value { return make<Joiner>(call.text(0, Text(", ", true))); }},
    {"raise_exception", {"message"}, 1, raise_exception},
    {"strftime_now", {"format"}, 1, strftime_now},
};

}  // namespace

std::span<const Builtin> globals() {
  return kGlobals;
}

}  // namespace martlet::jinja
