#include "bench/server_kinds.h"

#include <algorithm>
#include <array>
#include <sstream>

namespace martlet::bench {
namespace {

// Each is started at its best and for the same work. llama-cpp-python would compute the logits of whole prompts and cut
// running answers off when another request comes; martlet, mlx-lm and vLLM would reuse the prompts of earlier requests.
// Those that are told how many requests run at once ({streams}, the most that the loads have) have room for as many
// whole contexts. Answers are greedy: llama-cpp-python and Ollama would punish repetitions by 1.1 unless told otherwise
// (llama_cpp.server's ChatCompletionRequest, Ollama's Modelfile reference), vLLM would take penalties from the model's
// generation_config.json.
constexpr std::array kKinds = {
    ServerKind{.name = "martlet",
               .program = "martlet",
               .arguments =
                   "serve {model} --host 127.0.0.1 --port {port} --context {context} --streams {streams} "
                   "--max-sequences {streams} --threads {threads} --cache-type f16 --no-prefix-cache --backend cpu",
               .version = "{program} --version",
               .ready = "/health",
               .device = "echo cpu"},
    ServerKind{.name = "llama-cpp-python",
               .program = "python3 -m llama_cpp.server",
               .arguments =
                   "--model {model} --host 127.0.0.1 --port {port} --n_ctx {context} --n_threads {threads} "
                   "--n_threads_batch {threads} --n_gpu_layers 0 --logits_all false --interrupt_requests false",
               .version = "{program} -c print(__import__('llama_cpp').__version__)",
               .request = R"({"repeat_penalty":1.0})",
               .device = "echo cpu"},
    ServerKind{.name = "mlx-lm",
               .program = "python3 -m mlx_lm server",
               .arguments = "--model {model} --host 127.0.0.1 --port {port} --decode-concurrency {streams} "
                            "--prompt-concurrency 8 --prompt-cache-bytes 0",
               .version = "{program} -c print(__import__('importlib.metadata').metadata.version('mlx-lm'))",
               .ready = "/health",
               .model = "default_model",
               .device = "{program} -c print(__import__('mlx.core').core.default_device().type.name)",
               .folder = true},
    ServerKind{.name = "ollama",
               .program = "ollama",
               .environment = "OLLAMA_HOST=127.0.0.1:{port} OLLAMA_MODELS={files}/models OLLAMA_NUM_PARALLEL={streams} "
                              "OLLAMA_KV_CACHE_TYPE=f16",
               .arguments = "serve",
               .version = "{program} --version",
               .file = "Modelfile",
               .file_text = "FROM {model}\nPARAMETER num_ctx {context}\nPARAMETER num_thread {threads}\n"
                            "PARAMETER repeat_penalty 1.0\n",
               .prepare = "{program} create bench -f {files}/Modelfile",
               .ready = "/api/version",
               .model = "bench"},
    ServerKind{
        .name = "vllm",
        .program = "vllm",
        .arguments =
            "serve {model} --host 127.0.0.1 --port {port} --max-model-len {context} "
            "--max-num-seqs {streams} --served-model-name bench --no-enable-prefix-caching --generation-config vllm",
        .version = "{program} --version",
        .ready = "/health",
        .model = "bench",
        .folder = true},
};

}  // namespace

std::span<const ServerKind> server_kinds() {
  return kKinds;
}

const ServerKind* find_server_kind(std::string_view name) {
  const auto found = std::find_if(kKinds.begin(), kKinds.end(), [&](const ServerKind& k) { return k.name == name; });
  return found == kKinds.end() ? nullptr : &*found;
}

std::string expand(std::string_view text, const Values& values) {
  std::string out;
  while (!text.empty()) {
    const size_t open = text.find('{'), close = text.find('}', open);
    const auto value = close == text.npos ? values.end() : values.find(text.substr(open + 1, close - open - 1));
    const size_t plain = value == values.end() ? (open == text.npos ? text.size() : open + 1) : open;
    out += text.substr(0, plain);
    text.remove_prefix(value == values.end() ? plain : close + 1);
    if (value != values.end()) out += value->second;
  }
  return out;
}

std::string without_folders(std::string_view word) {
  const size_t value = word.find("=/");
  const size_t at = word.starts_with('/') ? 0 : value == word.npos ? word.size() : value + 1;
  std::string_view path = word.substr(at);
  while (path.ends_with('/')) path.remove_suffix(1);
  return std::string(word.substr(0, at)).append(path.substr(path.rfind('/') + 1));
}

std::vector<std::string> expand_words(std::string_view words, const Values& values) {
  std::vector<std::string> out;
  std::istringstream in{std::string(words)};
  for (std::string word; in >> word;) out.push_back(expand(word, values));
  return out;
}

}  // namespace martlet::bench
