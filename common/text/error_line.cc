#include "common/text/error_line.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>

#include "common/base/visible.h"

namespace phub {

std::string error_line(std::string_view program, const Status& error, bool as_json) {
  const std::string message = visible(error.message());
  if (!as_json) return std::string(program) + ": " + message;
  const nlohmann::json object = {
      {"error", {{"code", std::string(code_name(error.code()))}, {"message", message}}}};
  return object.dump();
}

bool asks_for_json(int argc, const char* const* argv) {
  const std::span words(argv, static_cast<std::size_t>(argc));
  return std::any_of(words.begin(), words.end(), [](std::string_view word) {
    return word == "--json" || word == "--json=true";
  });
}

}  // namespace phub
