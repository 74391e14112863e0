#include "worker/cli/options/exit_status.h"

#include <fmt/core.h>
#include <grpc/support/log.h>
#include <spdlog/spdlog.h>

#include <cstdio>

#include "common/text/error_line.h"

namespace phub {

Ending fail(const Status& status) {
  return fail(status, status.code() == Code::kInvalidArgument ? kExitUsage : kExitFailed);
}

int say(const Ending& ending, bool as_json) {
  if (!ending.error.ok()) {
    fmt::print(stderr, "{}\n", error_line("phub-worker", ending.error, as_json));
  }
  return ending.exit_code;
}

void print_note(std::string_view note) { fmt::print(stderr, "phub-worker: {}\n", note); }

void set_up_logging(const std::string& level) {
  spdlog::set_level(spdlog::level::from_str(level));
  gpr_set_log_function([](gpr_log_func_args* arguments) {
    spdlog::debug("grpc: {}", arguments->message);  // what matters comes back as a Status
  });
}

}  // namespace phub
