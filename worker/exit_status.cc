#include "worker/exit_status.h"

#include <fmt/core.h>
#include <grpc/support/log.h>
#include <spdlog/spdlog.h>

#include <cstdio>

#include "common/base/visible.h"

namespace phub {

int fail(const Status& status, int exit_code) {
  fmt::print(stderr, "phub-worker: {}\n", visible(status.message()));
  return exit_code;
}

int fail(const Status& status) {
  return fail(status, status.code() == Code::kInvalidArgument ? kExitUsage : kExitFailed);
}

void set_up_logging(const std::string& level) {
  spdlog::set_level(spdlog::level::from_str(level));
  gpr_set_log_function([](gpr_log_func_args* arguments) {
    spdlog::debug("grpc: {}", arguments->message);  // what matters comes back as a Status
  });
}

}  // namespace phub
