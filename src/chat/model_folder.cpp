#include "chat/model_folder.h"

#include <algorithm>
#include <filesystem>
#include <unordered_map>

#include <boost/json/monotonic_resource.hpp>
#include <boost/json/parse.hpp>

#include "base/mapped_file.h"

namespace martlet {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

// The largest vocabularies of today take 33 MiB with their merges, and two hundred thousand ids.
constexpr size_t kMaxTokenizerBytes = 64u << 20, kMaxConfigBytes = 8u << 20;
constexpr int64_t kMaxTokens = 1 << 21;
// A value takes 24 bytes and more, and "0," may be one. 262,144 tokens with half a million merges, as pairs, are 2.3
// million values.
constexpr int64_t kMaxTokenizerValues = 1 << 23, kMaxConfigValues = 1 << 18;

Error bad_vocabulary(const char* text) {
  return {ErrorKind::model, "bad_vocab", std::string(text) + "; the file is damaged, or of a kind that is not known",
          "tokenizer.json"};
}

// JSON of so many values at most, counted before memory is taken for them; what separates values in strings counts too.
bool holds_at_most(std::string_view text, int64_t values) {
  const auto separates = [](char c) { return c == ',' || c == '[' || c == '{'; };
  return std::count_if(text.begin(), text.end(), separates) < values;
}

const json::value* at(const json::value* value, std::string_view name) {
  const json::object* object = value ? value->if_object() : nullptr;
  return object ? object->if_contains(json::string_view(name.data(), name.size())) : nullptr;
}
std::string_view view(const json::string& text) {
  return {text.data(), text.size()};
}
std::string_view text_at(const json::value* value, std::string_view name) {
  const json::value* found = at(value, name);
  return found && found->is_string() ? view(found->get_string()) : std::string_view();
}

class Pieces {
 public:
  // `limit`: of ids.
  Pieces(std::vector<std::string>& out, int64_t limit) : out_(out), limit_(limit) {}
  Status add(const json::value* id, std::string_view piece) {
    const int64_t number = id && id->is_int64() ? id->get_int64() : -1;
    if (number < 0 || number >= limit_) return bad_vocabulary("a token's id is no number that it can be");
    const auto index = static_cast<size_t>(number);
    if (index >= out_.size()) out_.resize(index + 1);
    if (!out_[index].empty() && out_[index] != piece) return bad_vocabulary("two tokens have one id");
    out_[index] = piece;
    return {};
  }

 private:
  std::vector<std::string>& out_;
  const int64_t limit_;
};

// {"piece": id} as byte-pair vocabularies have it, or [["piece", score], ...] as unigram ones do.
Status read_pieces(const json::value* vocabulary, Pieces pieces) {
  if (const json::object* by_piece = vocabulary ? vocabulary->if_object() : nullptr) {
    for (const auto& member : *by_piece)
      MARTLET_TRY(pieces.add(&member.value(), {member.key().data(), member.key().size()}));
    return {};
  }
  const json::array* scored = vocabulary ? vocabulary->if_array() : nullptr;
  if (!scored) return bad_vocabulary("there is no vocabulary");
  for (const json::value& row : *scored) {
    const json::array* pair = row.if_array();
    if (!pair || pair->empty() || !pair->front().is_string()) return bad_vocabulary("a row has no piece");
    const json::value id = static_cast<int64_t>(&row - scored->data());
    MARTLET_TRY(pieces.add(&id, view(pair->front().get_string())));
  }
  return {};
}

Status read_added(const json::value* added, Pieces pieces) {
  if (!added || !added->is_array()) return {};
  for (const json::value& token : added->get_array()) {
    MARTLET_TRY(pieces.add(at(&token, "id"), text_at(&token, "content")));
  }
  return {};
}

// "left right", or ["left", "right"].
Status read_merges(const json::value* merges, FolderVocabulary& out) {
  if (!merges || !merges->is_array()) return {};
  for (const json::value& merge : merges->get_array()) {
    const json::array* pair = merge.if_array();
    if (merge.is_string()) {
      out.merges.emplace_back(view(merge.get_string()));
    } else if (pair && pair->size() == 2 && (*pair)[0].is_string() && (*pair)[1].is_string()) {
      std::string line(view((*pair)[0].get_string()));
      out.merges.push_back(line.append(" ").append(view((*pair)[1].get_string())));
    } else {
      return bad_vocabulary("a merge is no pair");
    }
  }
  return {};
}

// Of one post-processor, or of the first of a sequence that has a template. As deep as the JSON, which is bounded.
std::string_view first_token(const json::value* processor) {
  if (const json::value* sequence = at(processor, "processors"); sequence && sequence->is_array()) {
    for (const json::value& one : sequence->get_array()) {
      if (const std::string_view first = first_token(&one); !first.empty()) return first;
    }
  }
  const json::value* single = at(processor, "single");
  if (!single || !single->is_array() || single->get_array().empty()) return {};
  return text_at(at(&single->get_array().front(), "SpecialToken"), "id");
}

// A JSON file of the folder; null where there is none.
class Document {
 public:
  static Result<Document> read(const fs::path& path, size_t limit) {
    Document out;
    std::error_code error;
    if (!fs::exists(path, error)) return out;
    MARTLET_ASSIGN(const std::string text, read_text(path, limit));
    if (!holds_at_most(text, kMaxConfigValues)) {
      return Error{ErrorKind::model, "bad_model_folder", "a file of the model's folder holds more than any such file",
                   path.string()};
    }
    json::error_code ec;
    out.value_ = std::make_shared<const json::value>(json::parse(text, ec));
    if (ec)
      return Error{ErrorKind::model, "bad_model_folder", "a file of the model's folder is no JSON", path.string()};
    return out;
  }
  static Result<std::string> read_text(const fs::path& path, size_t limit) {
    MARTLET_ASSIGN(const std::shared_ptr<const MappedFile> file, MappedFile::open(path.string()));
    if (file->bytes().size() > limit) {
      return Error{ErrorKind::model, "bad_model_folder", "a file of the model's folder is larger than any such file",
                   path.string()};
    }
    return std::string(reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size());
  }
  const json::value* root() const { return value_.get(); }

 private:
  std::shared_ptr<const json::value> value_;
};

class FolderReader {
 public:
  explicit FolderReader(fs::path folder) : folder_(std::move(folder)) {}
  Result<ModelFolder> read();

 private:
  // "<s>", or {"content": "<s>"}
  std::string token_name(std::string_view key) const;
  Token find(std::string_view piece) const;
  void read_special(std::string_view name, std::string& text, Token& token);
  void add_stops(const json::value* ids);
  Status read_template();

  const fs::path folder_;
  Document tokenizer_config_, config_, generation_;
  ModelFolder out_;
};

std::string FolderReader::token_name(std::string_view key) const {
  const json::value* token = at(tokenizer_config_.root(), key);
  const json::value* text = token && token->is_object() ? at(token, "content") : token;
  return text && text->is_string() ? std::string(view(text->get_string())) : std::string();
}

Token FolderReader::find(std::string_view piece) const {
  const auto& pieces = out_.vocabulary.pieces;
  const auto found = piece.empty() ? pieces.end() : std::find(pieces.begin(), pieces.end(), piece);
  return found == pieces.end() ? -1 : static_cast<Token>(found - pieces.begin());
}

// The tokenizer's word comes first; where it has none, the model's ids stand in, as converters have it.
void FolderReader::read_special(std::string_view name, std::string& text, Token& token) {
  text = token_name(std::string(name) + "_token");
  token = find(text);
  const json::value* id = at(config_.root(), std::string(name) + "_token_id");
  if (id && id->is_array() && !id->get_array().empty()) id = &id->get_array().front();
  if (token < 0 && id && id->is_int64() && id->get_int64() >= 0 && id->get_int64() < kMaxTokens) {
    token = static_cast<Token>(id->get_int64());
  }
}

void FolderReader::add_stops(const json::value* ids) {
  const auto add = [&](const json::value& id) {
    if (id.is_int64() && id.get_int64() >= 0 && id.get_int64() < kMaxTokens) {
      out_.stop_tokens.push_back(static_cast<Token>(id.get_int64()));
    }
  };
  if (ids && ids->is_array()) {
    for (const json::value& id : ids->get_array()) add(id);
  } else if (ids) {
    add(*ids);
  }
}

// A file of its own comes before the tokenizer's configuration, where it is a text or a list of named ones.
Status FolderReader::read_template() {
  std::string source;
  std::error_code error;
  if (fs::exists(folder_ / "chat_template.jinja", error)) {
    MARTLET_ASSIGN(source, Document::read_text(folder_ / "chat_template.jinja", kMaxConfigBytes));
  } else if (const json::value* named = at(tokenizer_config_.root(), "chat_template"); named && named->is_array()) {
    for (const json::value& one : named->get_array()) {
      if (text_at(&one, "name") == "default") source = text_at(&one, "template");
    }
  } else {
    source = text_at(tokenizer_config_.root(), "chat_template");
  }
  if (source.empty()) {
    MARTLET_ASSIGN(const Document file, Document::read(folder_ / "chat_template.json", kMaxConfigBytes));
    source = text_at(file.root(), "chat_template");
  }
  if (source.empty()) return {};
  if (auto parsed = ChatTemplate::parse(source)) out_.chat_template = std::move(*parsed);
  return {};
}

Result<ModelFolder> FolderReader::read() {
  MARTLET_ASSIGN(const std::string text, Document::read_text(folder_ / "tokenizer.json", kMaxTokenizerBytes));
  MARTLET_ASSIGN(out_.vocabulary, parse_tokenizer_json(text));
  MARTLET_ASSIGN(tokenizer_config_, Document::read(folder_ / "tokenizer_config.json", kMaxConfigBytes));
  MARTLET_ASSIGN(config_, Document::read(folder_ / "config.json", kMaxConfigBytes));
  MARTLET_ASSIGN(generation_, Document::read(folder_ / "generation_config.json", kMaxConfigBytes));
  read_special("bos", out_.bos_name, out_.bos);
  read_special("eos", out_.eos_name, out_.eos);
  const json::value* says = at(tokenizer_config_.root(), "add_bos_token");
  const bool first_is_bos = !out_.vocabulary.first.empty() && out_.vocabulary.first == out_.bos_name;
  out_.adds_bos = first_is_bos || (says && says->is_bool() && says->get_bool());
  // As mlx-lm has it: generation's ids in the place of the model's, and the tokenizer's own beside them.
  const json::value* generation = at(generation_.root(), "eos_token_id");
  add_stops(generation && !generation->is_null() ? generation : at(config_.root(), "eos_token_id"));
  if (const Token own = find(out_.eos_name); own >= 0) out_.stop_tokens.push_back(own);
  std::sort(out_.stop_tokens.begin(), out_.stop_tokens.end());
  out_.stop_tokens.erase(std::unique(out_.stop_tokens.begin(), out_.stop_tokens.end()), out_.stop_tokens.end());
  MARTLET_TRY(read_template());
  return std::move(out_);
}

}  // namespace

Result<FolderVocabulary> parse_tokenizer_json(std::string_view text) {
  if (!holds_at_most(text, kMaxTokenizerValues)) return bad_vocabulary("it holds more values than any such file");
  json::monotonic_resource memory;
  json::error_code ec;
  const json::value root = json::parse(json::string_view(text.data(), text.size()), ec, &memory);
  if (ec) return bad_vocabulary("it is no JSON");
  FolderVocabulary out;
  // Each token takes more than a byte to write: a few of them do not make a table of millions.
  const Pieces pieces(out.pieces, std::min(kMaxTokens, static_cast<int64_t>(text.size())));
  const json::value* model = at(&root, "model");
  MARTLET_TRY(read_pieces(at(model, "vocab"), pieces));
  MARTLET_TRY(read_added(at(&root, "added_tokens"), pieces));
  MARTLET_TRY(read_merges(at(model, "merges"), out));
  out.first = first_token(at(&root, "post_processor"));
  return out;
}

Result<ModelFolder> read_model_folder(const std::string& folder) {
  Result<ModelFolder> out = FolderReader(folder).read();
  if (!out && out.error().code == "bad_vocab") out.error().where = (fs::path(folder) / out.error().where).string();
  return out;
}

bool is_model_folder(const std::string& path) {
  std::error_code error;
  return fs::is_regular_file(fs::path(path) / "tokenizer.json", error);
}

}  // namespace martlet
