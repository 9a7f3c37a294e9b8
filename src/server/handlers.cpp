#include "server/handlers.h"

#include <new>

#include <boost/json/serialize.hpp>

#include "base/heap.h"
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

json::object describe(const ServedModel& model) {
  return {{"id", model.name},
          {"object", "model"},
          {"created", model.created},
          {"owned_by", "martlet"},
          {"max_model_len", model.engine->context()}};
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

}  // namespace

std::optional<net::HttpResponse> Handlers::unavailable() const {
  if (draining_) return error_response({ErrorKind::unavailable, "shutting_down", "the server is shutting down", ""});
  if (loading()) return error_response({ErrorKind::unavailable, "loading", "the model is loading; try again soon", ""});
  return std::nullopt;
}

void Handlers::work(std::shared_ptr<net::Exchange> exchange, Task task) {
  http_->work([models = models_, exchange, task = std::move(task)] {
    const bool large = exchange->request().body.size() > kLargeBody;
    try {
      Status status = task(models, exchange);
      std::string().swap(exchange->request().body);
      if (!status) exchange->reply(error_response(status.error()));
    } catch (const std::bad_alloc&) {
      exchange->reply(error_response({ErrorKind::memory, "out_of_memory", "no memory left for this request", ""}));
    } catch (const std::exception&) {
      exchange->reply(error_response({ErrorKind::internal, "internal_error", "", ""}));
    }
    if (large) give_back_free_memory();
  });
}

void Handlers::complete(std::shared_ptr<net::Exchange> exchange, Endpoint endpoint) {
  const auto arrived = Completion::Clock::now();
  const int32_t tenant = keys_.tenant(exchange->request().field("authorization"));
  work(exchange, [=, this](const Models& models, const std::shared_ptr<net::Exchange>& ex) -> Status {
    MARTLET_ASSIGN(json::object body, parse_json_body(ex->request().body));
    MARTLET_ASSIGN(ApiRequest request, parse_api_request(std::move(body), endpoint, policy_));
    MARTLET_ASSIGN(const std::shared_ptr<const ServedModel> model, find_model(models, request.model));
    MARTLET_TRY(check_token_ids(*model, request));
    std::vector<std::vector<Token>> prompts;
    if (endpoint == Endpoint::chat) {
      MARTLET_ASSIGN(std::vector<Token> prompt, chat_prompt(*model, request));
      prompts.push_back(std::move(prompt));
    } else {
      MARTLET_ASSIGN(prompts, text_prompts(*model, request));
    }
    forget_inputs(request, *ex);
    const auto post = [http = http_](std::function<void()> task) { http->post(std::move(task)); };
    Completion::start({model, ex, post, &metrics_, endpoint, tenant, arrived}, std::move(request), std::move(prompts));
    return {};
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
  for (const auto& model : models_) data.emplace_back(describe(*model));
  reply(*exchange, {{"object", "list"}, {"data", std::move(data)}});
}

void Handlers::model(std::shared_ptr<net::Exchange> exchange) {
  const std::string_view path = exchange->request().path;
  auto name = decode_model_name(path.substr(std::string_view("/v1/models/").size()));
  auto found = name ? find_model(models_, *name) : Result<std::shared_ptr<const ServedModel>>(name.error());
  if (!found) return exchange->reply(error_response(found.error()));
  reply(*exchange, describe(**found));
}

void Handlers::tokenize(std::shared_ptr<net::Exchange> exchange) {
  work(std::move(exchange), [](const Models& models, const std::shared_ptr<net::Exchange>& ex) -> Status {
    MARTLET_ASSIGN(json::object body, parse_json_body(ex->request().body));
    MARTLET_ASSIGN(json::object out, tokenize_request(models, std::move(body)));
    return reply(*ex, std::move(out)), Status();
  });
}

void Handlers::detokenize(std::shared_ptr<net::Exchange> exchange) {
  work(std::move(exchange), [](const Models& models, const std::shared_ptr<net::Exchange>& ex) -> Status {
    MARTLET_ASSIGN(json::object body, parse_json_body(ex->request().body));
    MARTLET_ASSIGN(json::object out, detokenize_request(models, std::move(body)));
    return reply(*ex, std::move(out)), Status();
  });
}

void Handlers::health(std::shared_ptr<net::Exchange> exchange) {
  const char* state = draining_ ? "draining" : loading() ? "loading" : "ok";
  for (const auto& model : models_) {
    if (model->engine->stats().failed) state = "failed";
  }
  if (std::string_view(state) != "ok") return exchange->reply(health_response(state));
  reply(*exchange, {{"status", state}});
}

void Handlers::metrics(std::shared_ptr<net::Exchange> exchange) {
  EngineStats stats;
  for (const auto& model : models_) stats = model->engine->stats();
  net::HttpResponse response;
  response.content_type = "text/plain; version=0.0.4; charset=utf-8";
  response.body = metrics_.text(stats, http_->connections());
  exchange->reply(std::move(response));
}

}  // namespace martlet::server
