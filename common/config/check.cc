#include "common/config/check.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "common/rpc/address.h"
#include "common/text/nearest.h"

namespace phub {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

namespace {

constexpr int kSingular = -1;  // the index that a parse tree has for a field that is not repeated

}  // namespace

ConfigCheck ConfigCheck::nested(std::string_view field, const Message& message, int index) const {
  const FieldDescriptor* const found = descriptor(field);
  const bool repeats = found->is_repeated();
  const Tree* const tree =
      tree_ == nullptr ? nullptr : tree_->GetTreeForNested(found, repeats ? index : kSingular);
  return {file_, tree, message, status_,
          repeats ? fmt::format("{}{}[{}].", prefix_, field, index)
                  : fmt::format("{}{}.", prefix_, field)};
}

const FieldDescriptor* ConfigCheck::descriptor(std::string_view field) const {
  const FieldDescriptor* const found =
      message_.GetDescriptor()->FindFieldByName(std::string(field));
  PHUB_CHECK(found != nullptr, "a check names a field that the schema has not");
  return found;
}

// "configs/server.textproto:7:3: ", or only the file where a default is wrong.
std::string ConfigCheck::place_of(std::string_view field, int index) const {
  if (file_.empty()) return {};
  if (tree_ != nullptr) {
    const FieldDescriptor* const found = descriptor(field);
    auto place = tree_->GetLocation(found, found->is_repeated() ? index : kSingular);
    // Of a list in brackets only the first entry has a place.
    if (place.line < 0 && found->is_repeated()) place = tree_->GetLocation(found, 0);
    if (place.line >= 0) {
      return fmt::format("{}:{}:{}: ", file_, place.line + 1, place.column + 1);
    }
  }
  return file_ + ": ";
}

void ConfigCheck::require(bool is_right, std::string_view field, const std::string& text,
                          int index) {
  if (is_right || !status_.ok()) return;
  status_ = {Code::kInvalidArgument,
             fmt::format("{}{}{}: {}", place_of(field, index), prefix_, field, text)};
}

void ConfigCheck::refuse(std::string_view path, const std::string& text) {
  const std::size_t dot = path.find('.');
  if (dot == std::string_view::npos) return require(false, path, text);
  const std::string_view field = path.substr(0, dot);
  const Message& message = message_.GetReflection()->GetMessage(message_, descriptor(field));
  nested(field, message).refuse(path.substr(dot + 1), text);
}

void ConfigCheck::one_of(std::string_view field, std::string_view value,
                         std::span<const std::string_view> allowed, int index) {
  const bool is_allowed = std::find(allowed.begin(), allowed.end(), value) != allowed.end();
  if (is_allowed) return;
  const auto nearest = nearest_word(value, {allowed.begin(), allowed.end()});
  require(false, field,
          fmt::format("\"{}\" is not known; allowed are {}{}", value, fmt::join(allowed, ", "),
                      nearest ? fmt::format("; did you mean \"{}\"?", *nearest) : ""),
          index);
}

void ConfigCheck::address(std::string_view field, const std::string& value, std::uint16_t port_min,
                          int index) {
  const Result<Address> address = parse_address(value);
  if (!address) {
    require(false, field, address.error().message(), index);
    return;
  }
  require(address->port >= port_min, field,
          fmt::format("\"{}\" has port 0; give the port that the server listens on", value), index);
}

void ConfigCheck::unused_unless(bool is_used, std::string_view field, std::string_view why) {
  const FieldDescriptor* const found = descriptor(field);
  const google::protobuf::Reflection& reflection = *message_.GetReflection();
  const bool is_set = found->is_repeated() ? reflection.FieldSize(message_, found) > 0
                                           : reflection.HasField(message_, found);
  require(is_used || !is_set, field, fmt::format("has no effect {}; remove it", why));
}

}  // namespace phub
