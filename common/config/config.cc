#include "common/config/config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <vector>

#include "common/base/whole_file.h"
#include "common/text/nearest.h"
#include "common/text/url.h"

namespace phub {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::DescriptorPool;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::TextFormat;

constexpr int kTabColumns = 8;
// What the parser says of an enumeration's value: one that it has not, and one that is no word.
constexpr std::string_view kUnknownWord = "Unknown enumeration value";
constexpr std::string_view kNoWord = "Expected integer or identifier, got: ";

// The words between the n-th and the (n+1)-th double quote of a parser's message.
std::string_view quoted(std::string_view text, int n) {
  std::size_t begin = 0;
  for (int quote = 0; quote < 2 * n + 1; ++quote) {
    begin = text.find('"', begin);
    if (begin == std::string_view::npos) return {};
    ++begin;
  }
  return text.substr(begin, text.find('"', begin) - begin);
}

// `unknown field "coers" in phub.ServerConfig; did you mean "cores"?`
std::string describe_unknown_field(std::string_view type, std::string_view field) {
  std::string text = fmt::format("unknown field \"{}\" in {}", field, type);
  const Descriptor* const descriptor =
      DescriptorPool::generated_pool()->FindMessageTypeByName(std::string(type));
  if (descriptor == nullptr) return text;
  std::vector<std::string> names;
  for (int i = 0; i < descriptor->field_count(); ++i) names.push_back(descriptor->field(i)->name());
  const auto nearest = nearest_word(field, names, std::max<std::size_t>(2, field.size() / 2));
  if (nearest) return fmt::format("{}; did you mean \"{}\"?", text, *nearest);
  return fmt::format("{}; it has {}", text, fmt::join(names, ", "));
}

// Of the first field of that name in a message, or in one within it. Null: there is none.
const EnumDescriptor* enumeration_of(const Descriptor& message, std::string_view field,
                                     std::set<const Descriptor*>& seen) {
  if (!seen.insert(&message).second) return nullptr;
  for (int i = 0; i < message.field_count(); ++i) {
    const FieldDescriptor& here = *message.field(i);
    if (here.name() == field && here.enum_type() != nullptr) return here.enum_type();
    if (here.message_type() == nullptr) continue;
    const EnumDescriptor* const found = enumeration_of(*here.message_type(), field, seen);
    if (found != nullptr) return found;
  }
  return nullptr;
}

// `field "kind": KILL is not known; allowed, without quotes, are KILL_SERVER, KILL_WORKER`
std::string describe_unknown_word(const Descriptor& message, std::string_view field,
                                  std::string_view word) {
  std::set<const Descriptor*> seen;
  std::vector<std::string> words;
  if (const EnumDescriptor* const all = enumeration_of(message, field, seen)) {
    for (int i = 0; i < all->value_count(); ++i) words.push_back(all->value(i)->name());
  }
  return fmt::format("field \"{}\": {} is not known; allowed, without quotes, are {}", field, word,
                     fmt::join(words, ", "));
}

bool is_word(char character) {
  return std::isalnum(static_cast<unsigned char>(character)) != 0 || character == '_';
}

// The field whose value stands at `offset`: the word before the last ':' or '{' there.
std::string_view field_before(std::string_view text, std::size_t offset) {
  text = text.substr(0, offset);
  const std::size_t mark = text.find_last_of(":{");
  if (mark == std::string_view::npos) return {};
  std::size_t end = mark;
  while (end > 0 && !is_word(text[end - 1])) --end;
  std::size_t begin = end;
  while (begin > 0 && is_word(text[begin - 1])) --begin;
  return text.substr(begin, end - begin);
}

std::string_view cure_of(std::string_view message) {
  if (message == "Expected integer, got: -") return "; a number below 0 is not allowed";
  if (message.find("Expected integer") == 0) return "; write a whole number without quotes";
  if (message.find("Expected string") == 0) return "; put the text in double quotes";
  if (message.find("Expected double") == 0) return "; write a number without quotes";
  if (message.find("Invalid value for boolean") == 0) return "; write true or false";
  if (message.find("Integer out of range") == 0) return "; write a smaller number";
  return "";
}

// Keeps the first error, in our words.
class FirstError final : public google::protobuf::io::ErrorCollector {
 public:
  // All outlive it.
  FirstError(const Descriptor& message, std::string_view text, const std::string& name)
      : message_(message), text_(text), name_(name) {}

  void AddError(int line, int column, const std::string& message) override {
    if (!status_.ok()) return;
    const std::size_t offset = offset_of(line, column);
    std::string what;
    if (message.find("has no field named") != std::string::npos) {
      const std::string_view field = quoted(message, 1);
      what = describe_unknown_field(quoted(message, 0), field);
      column = column_of(line, column, field);
    } else if (message.find("specified multiple times") != std::string::npos) {
      const std::string_view field = quoted(message, 0);
      what = fmt::format("field \"{}\" is set twice; keep one of the two", field);
      column = column_of(line, column, field);
    } else if (message.find(kUnknownWord) == 0) {
      const std::string_view word = quoted(message, 0);
      what = describe_unknown_word(message_, quoted(message, 1), word);
      go_back_to(word, offset, line, column);
    } else if (message.find(kNoWord) == 0) {
      what = describe_unknown_word(message_, field_before(text_, offset),
                                   std::string_view(message).substr(kNoWord.size()));
    } else if (const std::string_view cure = cure_of(message); !cure.empty()) {
      what = fmt::format("field \"{}\": {}{}", field_before(text_, offset), message, cure);
    } else if (message.find("Expected") != 0) {
      what = message;
    } else {
      what = message + " (fields are written `name: value` or `name { ... }`)";
    }
    status_ = {Code::kInvalidArgument,
               fmt::format("{}:{}:{}: {}", name_, line + 1, column + 1, what)};
  }
  void AddWarning(int /*line*/, int /*column*/, const std::string& /*message*/) override {}

  const Status& status() const { return status_; }

 private:
  // The byte at a place of the parser's, which counts a tab as up to eight columns.
  std::size_t offset_of(int line, int column) const {
    std::size_t offset = 0;
    for (; line > 0; --line) offset = text_.find('\n', offset) + 1;
    for (int at = 0; at < column && offset < text_.size(); ++offset) {
      at = text_[offset] == '\t' ? (at / kTabColumns + 1) * kTabColumns : at + 1;
    }
    return offset;
  }

  // The parser reports the place behind a name; people look for the name.
  int column_of(int line, int column, std::string_view word) const {
    const std::size_t begin = offset_of(line, 0);
    const std::string_view before = text_.substr(begin, offset_of(line, column) - begin);
    const std::size_t found = before.rfind(word);
    return found == std::string_view::npos ? column : static_cast<int>(found);
  }

  // The parser reports what follows a word, maybe lines further down.
  void go_back_to(std::string_view word, std::size_t offset, int& line, int& column) const {
    const std::size_t found = text_.substr(0, offset).rfind(word);
    if (found == std::string_view::npos) return;
    const std::string_view before = text_.substr(0, found);
    line = static_cast<int>(std::count(before.begin(), before.end(), '\n'));
    column = static_cast<int>(found - (before.rfind('\n') + 1));
  }

  const Descriptor& message_;
  const std::string_view text_;
  const std::string& name_;
  Status status_;
};

template <typename Config>
Result<Config> parse(std::string_view text, const std::string& name) {
  Config config;
  TextFormat::ParseInfoTree tree;
  PHUB_RETURN_IF_ERROR(parse_textproto(text, name, tree, config));
  PHUB_RETURN_IF_ERROR(validate(config, name, &tree));
  return config;
}

// The value of a field that is a path: relative ones become relative to the file's directory. A URL
// stays what it is.
void make_relative_to(const std::string& file, const char* field,
                      google::protobuf::Message& message) {
  const auto& found = *message.GetDescriptor()->FindFieldByName(field);
  const auto& reflection = *message.GetReflection();
  const std::filesystem::path value = reflection.GetString(message, &found);
  if (value.empty() || value.is_absolute() || is_url(value.native())) return;
  const auto directory = std::filesystem::path(file).parent_path();
  reflection.SetString(&message, &found, (directory / value).lexically_normal().string());
}

}  // namespace

Result<std::string> read_text(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    return Status(Code::kInvalidArgument, path + ": is a directory; give a .textproto file");
  }
  PHUB_RETURN_IF_ERROR(check_readable_to_end(path));
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    const Code code = errno == ENOENT ? Code::kNotFound : Code::kPermissionDenied;
    return errno_status(path + ": cannot be read", code);
  }
  return std::string(std::istreambuf_iterator<char>(file), {});
}

Status parse_textproto(std::string_view text, const std::string& name,
                       TextFormat::ParseInfoTree& places, google::protobuf::Message& message) {
  FirstError errors(*message.GetDescriptor(), text, name);
  TextFormat::Parser parser;
  parser.RecordErrorsTo(&errors);
  parser.WriteLocationsTo(&places);
  const bool is_parsed = parser.ParseFromString(std::string(text), &message);
  if (!errors.status().ok() || is_parsed) return errors.status();
  return {Code::kInvalidArgument, name + ": is not a textproto"};
}

Result<ServerConfig> parse_server_config(std::string_view text, const std::string& name) {
  return parse<ServerConfig>(text, name);
}

Result<WorkerConfig> parse_worker_config(std::string_view text, const std::string& name) {
  return parse<WorkerConfig>(text, name);
}

Result<ServerConfig> load_server_config(const std::string& path) {
  PHUB_ASSIGN_OR_RETURN(const std::string text, read_text(path));
  PHUB_ASSIGN_OR_RETURN(ServerConfig config, parse_server_config(text, path));
  if (config.has_security()) {
    for (const char* const field : {"ca", "certificate", "key", "crl_folder"}) {
      make_relative_to(path, field, *config.mutable_security());
    }
  }
  if (config.has_rack_security()) {
    for (const char* const field : {"ca", "certificate", "key", "token_file"}) {
      make_relative_to(path, field, *config.mutable_rack_security());
    }
  }
  if (config.directory().has_etcd()) {
    for (const char* const field : {"ca", "certificate", "key", "password_file"}) {
      make_relative_to(path, field, *config.mutable_directory()->mutable_etcd());
    }
  }
  make_relative_to(path, "state_folder", config);
  return config;
}

Result<WorkerConfig> load_worker_config(const std::string& path) {
  Status wrong;
  PHUB_ASSIGN_OR_RETURN(WorkerConfig config, load_worker_config(path, wrong));
  PHUB_RETURN_IF_ERROR(wrong);
  return config;
}

Result<WorkerConfig> load_worker_config(const std::string& path, Status& wrong) {
  PHUB_ASSIGN_OR_RETURN(const std::string text, read_text(path));
  WorkerConfig config;
  TextFormat::ParseInfoTree places;
  PHUB_RETURN_IF_ERROR(parse_textproto(text, path, places, config));
  wrong = validate(config, path, &places);
  if (config.has_model()) make_relative_to(path, "file", *config.mutable_model());
  if (config.has_data()) make_relative_to(path, "path", *config.mutable_data());
  if (config.data().has_cache()) {
    make_relative_to(path, "path", *config.mutable_data()->mutable_cache());
  }
  if (config.has_security()) {
    for (const char* const field : {"ca", "certificate", "key", "token_file", "nonce_file"}) {
      make_relative_to(path, field, *config.mutable_security());
    }
  }
  return config;
}

Status load_textproto(const std::string& path, google::protobuf::Message& message) {
  PHUB_ASSIGN_OR_RETURN(const std::string text, read_text(path));
  TextFormat::ParseInfoTree places;
  return parse_textproto(text, path, places, message);
}

}  // namespace phub
