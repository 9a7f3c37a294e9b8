#pragma once

// The servers that the benchmark can start: one row each, a command line and what it wants of its model.

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace martlet::bench {

// Words are separated by spaces; names in braces are replaced in each of them.
struct ServerKind {
  std::string_view name;         // as --engines has it
  std::string_view program;      // words that start it where the user names no others
  std::string_view environment;  // NAME=VALUE words, for everything below
  std::string_view arguments;    // follow the program
  std::string_view version;      // words that print its version; {program}: the first word of the program
  std::string_view file;         // a file that it wants: name, and what it holds
  std::string_view file_text;
  std::string_view prepare;  // words that are run once it listens
  std::string_view ready;    // a path that answers 200 once requests are taken; empty: when its model is listed
  std::string_view model;    // as requests call the model; empty: the first that the server lists
  std::string_view request;  // what each request says to this server beyond what all are told: members of a JSON object
  std::string_view device;   // words that print "cpu" where the processor alone computes; empty: nobody tells
  bool folder = false;       // {model} is a folder of safetensors with their config, else a GGUF file
};

std::span<const ServerKind> server_kinds();
const ServerKind* find_server_kind(std::string_view name);  // null: there is none

// Values of the names in braces.
using Values = std::map<std::string, std::string, std::less<>>;
// Unknown names stay as they are.
std::vector<std::string> expand_words(std::string_view words, const Values& values);
std::string expand(std::string_view text, const Values& values);

// A word of a command line as results tell it to others: an absolute path, alone or behind "NAME=", is the name of its
// file, without the folders of this machine.
std::string without_folders(std::string_view word);

}  // namespace martlet::bench
