// What a configuration is refused with.
#pragma once

#include <catch2/catch.hpp>
#include <string>

#include "common/config/config.h"

namespace phub {

struct WrongField {
  const char* text;
  const char* start;  // of its error: the field
  const char* part;   // of its error: the cure
};

template <typename Config>
std::string error_of(const Result<Config>& config) {
  if (config) return "no error";
  CHECK(config.error().code() == Code::kInvalidArgument);
  return config.error().message();
}

inline std::string server_error(const std::string& text) {
  return error_of(parse_server_config(text, "s.textproto"));
}

inline std::string worker_error(const std::string& text) {
  return error_of(parse_worker_config(text, "w.textproto"));
}

}  // namespace phub
