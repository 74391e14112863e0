// phub-server: reads its configuration, serves until it is told to stop, drains, ends.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <string>

#include "common/text/help_format.h"
#include "common/text/usage.h"
#include "server/access/tenancy.h"
#include "server/daemon.h"
#include "server/directory/directory.h"
#include "server/door/tls_keeper.h"
#include "server/main_options.h"
#include "server/process/log.h"
#include "server/serve.h"

namespace phub::server {
namespace {

constexpr int kExitFailure = 1;
constexpr int kExitUsage = 2;

int failed(const Status& error, int exit_status = kExitFailure) {
  fmt::print(stderr, "phub-server: {}\n", error.message());
  return exit_status;
}

int reset_admin_token(const ServerConfig& config) {
  const Log log(config.log_level(), STDERR_FILENO);
  const Result<std::string> file = Tenancy::reset_admin_token(config.state_folder());
  if (!file) return failed(file.error());
  fmt::print("an admin token is in {}; `phubctl tenant token list` shows which others to revoke\n",
             *file);
  return 0;
}

// What a start would refuse of the files that the configuration names.
int check(const ServerConfig& config) {
  const Log log(config.log_level(), STDERR_FILENO);
  const DaemonOptions options = options_from(config);
  if (!options.tls.empty()) {
    const auto tls =
        TlsKeeper::create(options.tls, options.require_client_certificates, options.crl_folder);
    if (!tls) return failed(tls.error(), kExitUsage);
  }
  const auto directory = Directory::create(options.directory);
  if (!directory) return failed(directory.error(), kExitUsage);
  fmt::print(
      "phub-server: the configuration is good; addresses, CPUs and the state folder are tried at "
      "the start\n");
  return 0;
}

int run(int argc, char** argv) {
  CLI::App app;
  app.formatter(help_format());
  CommandLine line;
  declare(app, line);
  refuse_negative_counts(app);
  app.failure_message(usage_failure);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kExitUsage;
  }
  const Result<ServerConfig> config = configuration(line);
  if (!config) return failed(config.error(), kExitUsage);
  if (line.check_only) return check(*config);
  if (line.reset_admin_token) return reset_admin_token(*config);
  const Status served = serve(*config);
  if (served.ok()) return 0;
  return failed(served, served.code() == Code::kInvalidArgument ? kExitUsage : kExitFailure);
}

}  // namespace
}  // namespace phub::server

int main(int argc, char** argv) {
  try {
    return phub::server::run(argc, argv);
  } catch (const std::exception& error) {  // a library's; we throw nothing
    std::fprintf(stderr, "phub-server: %s\n", error.what());
    return 1;
  }
}
