#include "bench/contract.h"

#include <boost/json.hpp>

#include "bench/contract_text.h"  // made from contract.json when the build is configured

namespace martlet::bench {
namespace {

namespace json = boost::json;

std::vector<std::string> strings(const json::value& list) {
  return json::value_to<std::vector<std::string>>(list);
}
std::vector<int> numbers(const json::value& list) {
  return json::value_to<std::vector<int>>(list);
}
int number(const json::value& v) {
  return json::value_to<int>(v);
}

// The text is the program's own: a member that is missing is a bug, and the parser throws.
Contract parse(std::string_view text) {
  const json::value root = json::parse(json::string_view(text.data(), text.size()));
  const json::object& rules = root.at("contract").as_object();
  const json::value &single = rules.at("single"), &sweep = rules.at("sweep"), &dispatch = rules.at("dispatch");
  Contract out;
  out.version = number(rules.at("version"));
  out.max_tokens = number(rules.at("decode").at("max_tokens"));
  out.single = {number(single.at("warmup")), number(single.at("measured"))};
  out.sweep = {numbers(sweep.at("concurrency")), number(sweep.at("warmup")), number(sweep.at("measured"))};
  out.dispatch = {numbers(dispatch.at("instances")), number(dispatch.at("warmup_per_instance")),
                  number(dispatch.at("offered_at_once"))};
  out.short_prompts = strings(root.at("short"));
  out.medium = strings(root.at("medium"));
  out.long_prompts = strings(root.at("long"));
  out.predictable = strings(root.at("predictable"));
  out.surprising = strings(root.at("surprising"));
  return out;
}

}  // namespace

std::vector<std::string> Contract::prompts() const {
  std::vector<std::string> all = short_prompts;
  all.insert(all.end(), medium.begin(), medium.end());
  all.insert(all.end(), long_prompts.begin(), long_prompts.end());
  return all;
}

const Contract& contract() {
  static const Contract parsed = parse(contract_text());
  return parsed;
}

std::string_view contract_text() {
  return kContractText;
}

}  // namespace martlet::bench
