#include "gateway/in_process.h"

#include "gateway/file_facts.h"
#include "net/random_hex.h"

namespace martlet::gateway {
namespace {

constexpr size_t kRewritten = 64u << 10;  // what a body may grow by: another model's name, a field for drafts

}  // namespace

Result<std::unique_ptr<InProcess>> InProcess::start(UpstreamConfig& upstream, const PlannedEngine& engine,
                                                    size_t max_body, bool json_log) {
  MARTLET_ASSIGN(const std::shared_ptr<const server::ServedModel> model, engine.load());
  server::ServerOptions options;
  options.http.port = 0;
  options.http.parser.body_bytes = max_body + kRewritten;
  options.json_log = json_log;
  options.log_requests = false;  // the gateway does
  upstream.api_key = net::random_hex(32);
  options.api_keys = {upstream.api_key};
  // Every connection of the gateway may stay open between requests.
  options.http.max_connections = 2 * upstream.concurrent + 64;
  MARTLET_ASSIGN(std::unique_ptr<server::Server> server, server::Server::start(options));
  const std::string address = server->address();
  upstream.host = "127.0.0.1";
  upstream.port = static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
  upstream.model = "default";
  if (upstream.context == 0) upstream.context = model->engine->context();
  server->serve(model);
  const TextModel text{model->tokenizer, model->chat_template ? *model->chat_template : nullptr, engine.file};
  return std::unique_ptr<InProcess>(new InProcess(std::move(server), facts_of(text)));
}

}  // namespace martlet::gateway
