#include "text/pre_tokenizers.h"

// The expressions are those of the models' own tokenizer files. Where one of them repeats a group, or scans one run of
// characters again from each of its positions, it is written in an equivalent form that PCRE2 matches in linear time
// and without a backtracking stack: a class instead of a look-ahead before a class, a look-behind that pins a run's
// start, a possessive repeat where nothing can follow.

namespace martlet {
namespace {

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define WORD "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+"
#define PUNCTUATION " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*"
#define SPACES "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
// Words split at a change from lower to upper case (GPT-4o and others).
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define CASED(end) "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" end "|[^\\r\\n\\p{L}\\p{N}]?" UPPER "+" LOWER "*" end
#define CASED_PUNCTUATION " ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*"
#define ASCII_PUNCTUATION "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~]"
#define CJK "[一-龥぀-ゟ゠-ヿ]+"
#define NON_HAN_UPPER "[^\\p{Ll}\\p{N}\\p{P}\\p{S}\\p{Z}\\p{C}\\p{sc:Han}]"
#define NON_HAN_LOWER "[^\\p{Lu}\\p{Lt}\\p{N}\\p{P}\\p{S}\\p{Z}\\p{C}\\p{sc:Han}]"
#define NON_HAN_CASED(end)                                                                                 \
  "[^\\r\\n\\p{L}\\p{N}]?" NON_HAN_UPPER "*" NON_HAN_LOWER "+" end "|[^\\r\\n\\p{L}\\p{N}]?" NON_HAN_UPPER \
  "+" NON_HAN_LOWER "*" end

constexpr const char* kDefault[] = {"[\\p{P}\\$\\+<=>\\^~\\|]+", GPT2, "\\p{N}+", "[0-9][0-9][0-9]"};
constexpr const char* kGpt2[] = {GPT2};
constexpr const char* kGpt2Digits[] = {"\\p{N}", GPT2};
constexpr const char* kFalcon[] = {"[\\p{P}\\$\\+<=>\\^~\\|`]+", GPT2, "[0-9][0-9][0-9]"};
constexpr const char* kLlama3[] = {CONTRACTIONS "|" WORD "|\\p{N}{1,3}|" PUNCTUATION "|" SPACES};
constexpr const char* kMiniCpm5[] = {"\\p{N}{1,3}", CONTRACTIONS "|" WORD "|\\p{N}+|" PUNCTUATION "|" SPACES};
constexpr const char* kQwen2[] = {CONTRACTIONS "|" WORD "|\\p{N}|" PUNCTUATION "|" SPACES};
constexpr const char* kQwen35[] = {
    CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" SPACES};
constexpr const char* kLaguna[] = {"[^\\n]+|[\\n]+", CONTRACTIONS "|" WORD "|\\p{N}|" PUNCTUATION "|" SPACES};
constexpr const char* kUfakzeka[] = {WORD "|\\p{N}|" PUNCTUATION "|" SPACES};
constexpr const char* kBailing[] = {"'(?i:[sdmt]|ll|ve|re)|" WORD "|\\p{N}|" PUNCTUATION
                                    "|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"};
constexpr const char* kSeedCoder[] = {CONTRACTIONS "|" WORD "|\\p{N}| ?[^\\s\\p{L}\\p{N}\\r\\n]+|" SPACES};
constexpr const char* kExaoneMoe[] = {
    CONTRACTIONS
    "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}(?: ?\\p{L}|\\p{M})*+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]?|"
    "\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"};
constexpr const char* kGpt4o[] = {CASED(CONTRACTIONS "?") "|\\p{N}{1,3}|" CASED_PUNCTUATION "|" SPACES};
constexpr const char* kTekken[] = {CASED("") "|\\p{N}|" CASED_PUNCTUATION "|" SPACES};
constexpr const char* kKimiK2[] = {"\\p{sc:Han}+|" NON_HAN_CASED(CONTRACTIONS "?") "|\\p{N}{1,3}|" PUNCTUATION
                                                                                   "|" SPACES};
constexpr const char* kYoutu[] = {"[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|" CJK,
                                  CASED(CONTRACTIONS "?") "|\\p{N}|" CASED_PUNCTUATION "|" SPACES};
constexpr const char* kDeepseekLlm[] = {
    "[\\r\\n]",
    "\\s?[A-Za-z\\x{B5}\\x{C0}-\\x{D6}\\x{D8}-\\x{F6}\\x{F8}-\\x{1BA}\\x{1BC}-\\x{1BF}\\x{1C4}-\\x{293}"
    "\\x{295}-\\x{2AF}\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37B}-\\x{37D}\\x{37F}\\x{386}\\x{388}-\\x{38A}\\x{38C}"
    "\\x{38E}-\\x{3A1}\\x{3A3}-\\x{3F5}\\x{3F7}-\\x{481}\\x{48A}-\\x{52F}\\x{531}-\\x{556}\\x{10A0}-\\x{10C5}"
    "\\x{13A0}-\\x{13F5}\\x{13F8}-\\x{13FD}\\x{1C90}-\\x{1CBA}\\x{1CBD}-\\x{1CBF}\\x{1D00}-\\x{1D2B}"
    "\\x{1D6B}-\\x{1D77}\\x{1D79}-\\x{1D9A}\\x{1E00}-\\x{1F15}\\x{1F18}-\\x{1F1D}\\x{1F20}-\\x{1F45}"
    "\\x{1F48}-\\x{1F4D}\\x{1F50}-\\x{1F57}\\x{1F59}\\x{1F5B}\\x{1F5D}\\x{1F5F}-\\x{1F7D}\\x{1F80}-\\x{1FB4}"
    "\\x{1FB6}-\\x{1FBC}\\x{1FBE}\\x{1FC2}-\\x{1FC4}\\x{1FC6}-\\x{1FCC}\\x{1FD0}-\\x{1FD3}\\x{1FD6}-\\x{1FDB}"
    "\\x{1FE0}-\\x{1FEC}\\x{1FF2}-\\x{1FF4}\\x{1FF6}-\\x{1FFC}\\x{2102}\\x{2107}\\x{210A}-\\x{2113}\\x{2115}"
    "\\x{2119}-\\x{211D}\\x{2124}\\x{2126}\\x{2128}\\x{212A}-\\x{212D}\\x{212F}-\\x{2134}\\x{2139}"
    "\\x{213C}-\\x{213F}\\x{2145}-\\x{2149}\\x{214E}\\x{2183}\\x{2184}\\x{2C00}-\\x{2C7B}\\x{2C7E}-\\x{2CE4}"
    "\\x{2CEB}-\\x{2CEE}\\x{2CF2}\\x{2CF3}\\x{A640}-\\x{A66D}\\x{A680}-\\x{A69B}\\x{A722}-\\x{A76F}"
    "\\x{A771}-\\x{A787}\\x{A78B}-\\x{A78E}\\x{AB70}-\\x{ABBF}\\x{FB00}-\\x{FB06}\\x{FB13}-\\x{FB17}"
    "\\x{FF21}-\\x{FF3A}\\x{FF41}-\\x{FF5A}\\x{10400}-\\x{1044F}\\x{104B0}-\\x{104D3}\\x{104D8}-\\x{104FB}"
    "\\x{10C80}-\\x{10CB2}\\x{10CC0}-\\x{10CF2}\\x{118A0}-\\x{118DF}\\x{1E900}-\\x{1E943}]+",
    "\\s?[!-/:-~！-／：-～‘-‟　-。]+",
    "(?<!\\s)\\s++\\z",
    "[一-龥ࠀ-一가-퟿]+",
    "\\p{N}+"};
constexpr const char* kDeepseekCoder[] = {"[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", "[一-龥ࠀ-一가-퟿]+",
                                          "\\p{N}"};
constexpr const char* kDeepseekV3[] = {
    "\\p{N}{1,3}", CJK,
    ASCII_PUNCTUATION "[A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|" SPACES};
constexpr const char* kSpark[] = {
    "\\p{N}{1,3}", CJK,
    ASCII_PUNCTUATION
    "[A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+|[\\r\\n]|\\s+(?!\\S)|\\s+",
    "\\p{N}"};
constexpr const char* kBloom[] = {" ?[^(\\s|.,!?…。，、।۔،)]+"};
constexpr const char* kViking[] = {" ?[^(\\s|.,!?…。，、।۔،)]+", "\\p{N}"};
// Merging on characters, with spaces written as U+2581: only runs of newlines stand apart.
constexpr const char* kLines[] = {"[^\\n]+|\\n+"};

constexpr PreTokenizerRow kRows[] = {
    {"default", kDefault},
    {"gpt-2", kGpt2},
    {"phi-2", kGpt2},
    {"mpt", kGpt2},
    {"olmo", kGpt2},
    {"jais", kGpt2},
    {"trillion", kGpt2},
    {"granite-docling", kGpt2},
    {"gigachat", kGpt2},
    {"a.x-4.0", kGpt2},
    {"mellum", kGpt2},
    {"modern-bert", kGpt2},
    {"exaone4", kGpt2},
    {"jina-es", kGpt2},
    {"jina-de", kGpt2},
    {"jina-v1-en", kGpt2},
    {"jina-v2-es", kGpt2},
    {"jina-v2-de", kGpt2},
    {"jina-v2-code", kGpt2},
    {"roberta-bpe", kGpt2},
    {"starcoder", kGpt2Digits},
    {"smollm", kGpt2Digits},
    {"refact", kGpt2Digits},
    {"command-r", kGpt2Digits},
    {"codeshell", kGpt2Digits},
    {"exaone", kGpt2Digits},
    {"minerva-7b", kGpt2Digits},
    {"mellum2", kGpt2Digits},
    {"falcon", kFalcon},
    {"llama-bpe", kLlama3, kTakesWholePieces | kAddsBos},
    {"llama3", kLlama3, kTakesWholePieces | kAddsBos},
    {"llama-v3", kLlama3, kTakesWholePieces | kAddsBos},
    {"falcon3", kLlama3, kTakesWholePieces | kAddsBos},
    {"falcon-h1", kLlama3, kTakesWholePieces | kAddsBos},
    {"pixtral", kLlama3, kTakesWholePieces | kAddsBos},
    {"midm-2.0", kLlama3, kTakesWholePieces | kAddsBos},
    {"lfm2", kLlama3, kTakesWholePieces | kAddsBos},
    {"jina-v5-nano", kLlama3, kTakesWholePieces | kAddsBos},
    {"dbrx", kLlama3},
    {"smaug-bpe", kLlama3},
    {"chatglm-bpe", kLlama3},
    {"glm4", kLlama3},
    {"minicpm5", kMiniCpm5, kTakesWholePieces},
    {"qwen2", kQwen2},
    {"deepseek-r1-qwen", kQwen2},
    {"kormo", kQwen2},
    {"f2llmv2", kQwen2},
    {"megrez", kQwen2},
    {"stablelm2", kQwen2},
    {"hunyuan", kQwen2},
    {"solar-open", kQwen2},
    {"grok-2", kQwen2},
    {"qwen35", kQwen35},
    {"laguna", kLaguna},
    {"ufakzeka", kUfakzeka},
    {"bailingmoe", kBailing},
    {"bailingmoe2", kBailing},
    {"llada-moe", kBailing},
    {"seed-coder", kSeedCoder},
    {"exaone-moe", kExaoneMoe},
    {"gpt-4o", kGpt4o},
    {"llama4", kGpt4o},
    {"kanana2", kGpt4o},
    {"talkie", kGpt4o},
    {"minimax-m2", kGpt4o},
    {"granite-embed-multi-97m", kGpt4o, kTakesWholePieces},
    {"tekken", kTekken, kTakesWholePieces | kAddsBos},
    {"kimi-k2", kKimiK2},
    {"youtu", kYoutu, kTakesWholePieces},
    {"deepseek-llm", kDeepseekLlm},
    {"deepseek-coder", kDeepseekCoder},
    {"deepseek-v3", kDeepseekV3},
    {"hunyuan-dense", kDeepseekV3},
    {"joyai-llm", kDeepseekV3},
    {"hy_v4", kDeepseekV3},
    {"spark2_5", kSpark},
    {"bloom", kBloom},
    {"poro-chat", kBloom},
    {"gpt3-finnish", kBloom},
    {"viking", kViking},
    {"gemma4", kLines, kCharacters | kAddsBos},
    {"sarvam-moe", kLines, kCharacters},
    {"granite-embed-multi-311m", kLines, kCharacters},
};

}  // namespace

std::span<const PreTokenizerRow> pre_tokenizer_rows() {
  return kRows;
}

const PreTokenizerRow* find_pre_tokenizer(std::string_view name) {
  for (const PreTokenizerRow& row : kRows) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

}  // namespace martlet
