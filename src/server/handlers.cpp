#include "server/handlers.h"

#include <boost/json/serialize.hpp>

#include "base/heap.h"
#include "base/out_of_memory.h"
#include "base/resident.h"
#include "server/completion.h"
#include "server/error_response.h"
#include "server/json_body.h"
#include "server/model_name.h"
#include "server/tokenize.h"

namespace martlet::server {

namespace json = boost::json;

namespace {

void reply(net::Exchange& exchange, json::object body, int status = 200) {
  net::HttpResponse response;
  response.status = status;
  response.body = json::serialize(body);
  exchange.reply(std::move(response));
}

constexpr size_t kLargeBody = 1 << 20;  // after one, free memory goes back to the system

json::object describe(const ModelInfo& model) {
  json::object out = {{"id", model.name},
                      {"object", "model"},
                      {"created", model.created},
                      {"owned_by", "martlet"},
                      {"state", name_of(model.state)}};
  if (model.context > 0) {
    out["max_model_len"] = model.context;
    out["memory_bytes"] = model.memory;
    out["requests"] = model.requests;
  }
  if (!model.error.empty()) out["error"] = model.error;
  return out;
}

// The megabytes that nobody needs while the answer runs; assigning an empty string would keep them.
void forget_inputs(ApiRequest& request, net::Exchange& exchange) {
  std::string().swap(exchange.request().body);
  request.prompt = nullptr;
  json::array().swap(request.messages);
  json::object().swap(request.template_kwargs);
}

net::HttpResponse health_response(const char* state) {
  net::HttpResponse response;
  response.status = 503;
  response.body = json::serialize(json::object{{"status", state}});
  response.fields.push_back({"retry-after", "1"});
  return response;
}

// Whatever a task says or throws, its client gets an answer.
void run_task(net::Exchange& exchange, const std::function<Status()>& task) {
  try {
    if (Status status = task(); !status) exchange.reply(error_response(status.error()));
  } catch (const std::bad_alloc&) {
    insist([&] { exchange.reply(error_response(out_of_memory())); });
  } catch (const std::exception&) {
    insist([&] { exchange.reply(error_response({ErrorKind::internal, "internal_error", "", ""})); });
  }
}

}  // namespace

std::optional<net::HttpResponse> Handlers::unavailable() const {
  if (draining_) return error_response({ErrorKind::unavailable, "shutting_down", "the server is shutting down", ""});
  if (!open_) return error_response({ErrorKind::unavailable, "loading", "the model is loading; try again soon", ""});
  if (refusing_) {
    return error_response({ErrorKind::unavailable, "memory_pressure",
                           "the machine is short of memory: no new work until that is over", ""});
  }
  return std::nullopt;
}

void Handlers::work(ExchangePointer exchange, std::function<Status(const ExchangePointer&)> task) {
  http_->work([exchange, task = std::move(task)] {
    const bool large = exchange->request().body.size() > kLargeBody;
    run_task(*exchange, [&] { return task(exchange); });
    std::string().swap(exchange->request().body);
    if (large) give_back_free_memory();
  });
}

Status Handlers::with_model(const ExchangePointer& exchange, const std::string& name,
                            std::optional<KeepAlive> keep_alive,
                            std::function<Status(Model, const ExchangePointer&)> task) {
  const auto wanted = [exchange] { return !exchange->closed(); };
  const auto later = [this, exchange, task](Result<Model> model) {
    // The one lease: attempts share it, and the task drops it before its answer is out.
    const auto held = insist([&] { return std::make_shared<Result<Model>>(std::move(model)); });
    insist([&] {
      work(exchange, [held, task](const ExchangePointer& ex) -> Status {
        if (!*held) return Error(held->error());
        return ex->closed() ? Status() : task(std::move(**held), ex);
      });
    });
  };
  auto now = models_.acquire(name, keep_alive, wanted, later);
  if (!now) return {};
  if (!*now) return std::move(now->error());
  return task(std::move(**now), exchange);
}

void Handlers::complete(ExchangePointer exchange, Endpoint endpoint) {
  const auto arrived = Completion::Clock::now();
  const int32_t tenant = keys_.tenant(exchange->request().field("authorization"));
  work(std::move(exchange), [=, this](const ExchangePointer& ex) -> Status {
    MARTLET_ASSIGN(json::object body, parse_json_body(ex->request().body));
    MARTLET_ASSIGN(ApiRequest parsed, parse_api_request(std::move(body), endpoint, policy_));
    const auto request = std::make_shared<ApiRequest>(std::move(parsed));
    return with_model(ex, request->model, request->keep_alive,
                      [=, this](Model model, const ExchangePointer& to) -> Status {
                        MARTLET_TRY(check_token_ids(*model, *request));
                        std::vector<std::vector<Token>> prompts;
                        if (endpoint == Endpoint::chat) {
                          MARTLET_ASSIGN(std::vector<Token> prompt, chat_prompt(*model, *request));
                          prompts.push_back(std::move(prompt));
                        } else {
                          MARTLET_ASSIGN(prompts, text_prompts(*model, *request));
                        }
                        forget_inputs(*request, *to);
                        const auto post = [http = http_](std::function<void()> task) { http->post(std::move(task)); };
                        Completion::start({std::move(model), to, post, &metrics_, log_, endpoint, tenant, arrived},
                                          std::move(*request), std::move(prompts));
                        return {};
                      });
  });
}

void Handlers::chat(std::shared_ptr<net::Exchange> exchange) {
  complete(std::move(exchange), Endpoint::chat);
}
void Handlers::text(std::shared_ptr<net::Exchange> exchange) {
  complete(std::move(exchange), Endpoint::text);
}

void Handlers::models(std::shared_ptr<net::Exchange> exchange) {
  json::array data;
  for (const ModelInfo& model : models_.list()) data.emplace_back(describe(model));
  reply(*exchange, {{"object", "list"}, {"data", std::move(data)}});
}

void Handlers::model(std::shared_ptr<net::Exchange> exchange) {
  const std::string_view path = exchange->request().path;
  auto name = decode_model_name(path.substr(std::string_view("/v1/models/").size()));
  auto found = name ? models_.find(*name) : Result<ModelInfo>(name.error());
  if (!found) return exchange->reply(error_response(found.error()));
  reply(*exchange, describe(*found));
}

void Handlers::tokenize(std::shared_ptr<net::Exchange> exchange) {
  work(std::move(exchange), [this](const ExchangePointer& ex) -> Status {
    MARTLET_ASSIGN(json::object body, parse_json_body(ex->request().body));
    MARTLET_ASSIGN(TokenizeRequest request, parse_tokenize(std::move(body)));
    return with_model(ex, request.model, std::nullopt, [request](Model model, const ExchangePointer& to) -> Status {
      MARTLET_ASSIGN(json::object out, server::tokenize(*model, request));
      model.reset();
      return reply(*to, std::move(out)), Status();
    });
  });
}

void Handlers::detokenize(std::shared_ptr<net::Exchange> exchange) {
  work(std::move(exchange), [this](const ExchangePointer& ex) -> Status {
    MARTLET_ASSIGN(json::object body, parse_json_body(ex->request().body));
    MARTLET_ASSIGN(TokenizeRequest request, parse_detokenize(std::move(body)));
    return with_model(ex, request.model, std::nullopt, [request](Model model, const ExchangePointer& to) -> Status {
      MARTLET_ASSIGN(json::object out, server::detokenize(*model, request));
      model.reset();
      return reply(*to, std::move(out)), Status();
    });
  });
}

// Open to everybody, so it counts and names nothing.
void Handlers::health(std::shared_ptr<net::Exchange> exchange) {
  const char* state = draining_ ? "draining" : !open_ ? "loading" : models_.failure() ? "failed" : "ok";
  if (std::string_view(state) != "ok") return exchange->reply(health_response(state));
  const MemoryReport memory = this->memory();
  const EngineStats stats = total_stats();
  reply(*exchange, {{"status", state},
                    {"models", {{"served", memory.models_served}, {"loaded", memory.models_loaded}}},
                    {"requests", {{"running", stats.running}, {"queued", stats.queued}}},
                    {"memory",
                     {{"planned", memory.planned()},
                      {"ceiling", memory.ceiling},
                      {"resident", memory.resident},
                      {"pressure", net::name_of(pressure_)},
                      {"refusing", refusing_.load()}}}});
}

EngineStats Handlers::total_stats() const {
  EngineStats total = models_.retired();
  for (const Model& model : models_.loaded()) total += model->engine->stats();
  return total;
}

MemoryReport Handlers::memory() const {
  MemoryReport out;
  out.ceiling = models_.memory();
  for (const ModelInfo& model : models_.list()) {
    ++out.models_served;
    out.models_loaded += model.state == ModelState::loaded;
  }
  for (const Model& model : models_.loaded()) out.add(model->engine->plan());
  out.resident = resident_bytes();
  out.pressure = static_cast<int>(pressure_.load());
  out.refusing = refusing_;
  return out;
}

void Handlers::metrics(std::shared_ptr<net::Exchange> exchange) {
  net::HttpResponse response;
  response.content_type = "text/plain; version=0.0.4; charset=utf-8";
  response.body = metrics_.text(total_stats(), memory(), http_->connections());
  exchange->reply(std::move(response));
}

}  // namespace martlet::server
