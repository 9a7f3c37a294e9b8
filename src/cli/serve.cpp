#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <limits>

#include <fmt/format.h>

#include "cli/backends.h"
#include "cli/cache_type.h"
#include "cli/command.h"
#include "cli/draft_flags.h"
#include "cli/load.h"
#include "cli/memory_flag.h"
#include "cli/stop_signals.h"
#include "server/server.h"

namespace martlet::cli {
namespace {

using server::ServedModel;
using server::Server;
using server::ServerOptions;

constexpr double kDrainSeconds = 30;
constexpr std::chrono::milliseconds kFailureCheck{250};  // how soon a model file that changed ends the server

struct Flags {
  std::vector<std::string> models;
  ServerOptions server;
  LoadOptions load;
  DraftFlags draft;
  size_t max_body_mib = 16;
  double tpot_target_ms = 0;
};

void define_flags(CLI::App& app, Flags& flags) {
  net::HttpServerOptions& http = flags.server.http;
  app.add_option("model", flags.models,
                 "A .gguf file, hf:owner/repository[:file] or an alias; the default model if absent");
  app.add_option("--host", http.host, "Address to listen on; others than this machine need --api-key")
      ->capture_default_str();
  app.add_option("--port", http.port, "Port to listen on; 0 takes a free one and prints it")->capture_default_str();
  app.add_option("--api-key", flags.server.api_keys, "Key that requests must show; may be given several times")
      ->delimiter(',');
  app.add_option("--context", flags.load.engine.context,
                 "Longest sequence in tokens; 0: what model and memory allow, at most 8192")
      ->check(CLI::Range(0, std::numeric_limits<int32_t>::max()))
      ->capture_default_str();
  add_memory(app, flags.load.engine.memory_ceiling);
  app.add_option("--max-sequences", flags.load.engine.max_sequences, "Requests that run at once; more wait")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  app.add_option("--max-queue", flags.load.engine.max_queue, "Requests that may wait; more get 429")
      ->capture_default_str();
  app.add_option("--max-key-requests", flags.load.engine.max_tenant_requests,
                 "Requests of one API key that may run or wait; more get 429; 0: no limit of its own")
      ->capture_default_str();
  app.add_option("--tpot-target", flags.tpot_target_ms,
                 "Milliseconds between the tokens of a stream while prompts of others are read; 0: 1.5 times a step "
                 "without prompts")
      ->check(CLI::Range(0.0, 60'000.0))
      ->capture_default_str();
  app.add_option("--backend", flags.load.backend, kBackendHelp)->capture_default_str();
  add_cache_type(app, flags.load.engine.cache_type);
  app.add_option("--threads", flags.load.threads, "Compute threads; 0: one for each physical core")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  app.add_option("--max-connections", http.max_connections, "Open connections; more get 503")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
  app.add_option("--max-body", flags.max_body_mib, "Largest request body in MiB; larger ones get 413")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  add_draft_flags(app, flags.draft);
  app.add_flag("--chat-template-kwargs", flags.server.policy.template_kwargs,
               "Let requests pass variables to the chat template");
}

Status check(const Flags& flags) {
  // Each engine plans memory as if it were alone: several would promise the same bytes.
  if (flags.models.size() > 1) {
    return Error{ErrorKind::usage, "one_model", "one model can be served at a time; start a server for each", "model"};
  }
  for (const std::string& key : flags.server.api_keys) {
    if (key.empty()) return Error{ErrorKind::usage, "empty_key", "an API key must not be empty", "--api-key"};
  }
  return {};
}

Status serve(Flags& flags) {
  MARTLET_TRY(check(flags));
  MARTLET_TRY(apply_draft_flags(flags.draft, flags.load.engine));
  StopSignals signals;
  flags.server.http.parser.body_bytes = flags.max_body_mib << 20;
  flags.load.engine.tpot_target = flags.tpot_target_ms / 1000;
  flags.server.json_log = !isatty(STDERR_FILENO);
  if (!flags.models.empty()) flags.load.model = flags.models.front();
  MARTLET_ASSIGN(const std::unique_ptr<Server> server, Server::start(flags.server));
  server->note("listening on " + server->address());
  MARTLET_ASSIGN(Loaded loaded, load(flags.load));
  if (!loaded.chat_template) server->note("this model's chat template cannot be used: chat requests will be refused");
  const std::shared_ptr<const ServedModel> model = served(std::move(loaded));
  server->serve(model);
  signals.may_drain();
  std::printf("ready: %s serves %s with a context of %d tokens\n", server->address().c_str(), model->name.c_str(),
              model->engine->context());
  std::fflush(stdout);
  while (!signals.wait_for(kFailureCheck)) {
    if (server->failed()) return model_changed();
  }
  server->note("draining");
  server->drain(kDrainSeconds);
  return {};
}

}  // namespace

Action define_serve(CLI::App& app) {
  const auto flags = std::make_shared<Flags>();
  define_flags(app, *flags);
  return [flags] { return serve(*flags); };
}

}  // namespace martlet::cli
