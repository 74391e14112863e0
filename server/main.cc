// phub-server: reads its configuration, serves until it is told to stop, drains, ends.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/version.h"
#include "common/config/config.h"
#include "common/rpc/credentials_folder.h"
#include "common/text/help_format.h"
#include "common/text/usage.h"
#include "server/access/tenancy.h"
#include "server/daemon.h"
#include "server/directory/directory.h"
#include "server/door/tls_keeper.h"
#include "server/process/log.h"
#include "server/serve.h"

namespace phub::server {
namespace {

constexpr int kExitFailure = 1;
constexpr int kExitUsage = 2;

struct Overrides {
  std::string config_path;
  ServerConfig given;  // what options say: over what the file says
  std::optional<std::string> credentials;
  std::vector<std::string> transports;
  bool reset_admin_token = false;
  bool check_only = false;
};

void declare(CLI::App& app, Overrides& overrides) {
  app.description(
      "phub-server: a parameter server. It sums the gradients that workers send, applies the\n"
      "update rule on pinned cores, and answers with the new parameters.");
  app.footer(
      "Half of the CPUs, control port 7077; then as a file says:\n"
      "  phub-server\n"
      "  phub-server --config configs/server.textproto\n\n"
      "For workers on other machines, with TLS and tokens; `phubctl pki init pki` makes the "
      "files:\n"
      "  phub-server --control 0.0.0.0:7077 --data 0.0.0.0:0 --credentials pki/server --state "
      "/var/lib/phub\n\n"
      "The same where everybody may do everything:\n"
      "  phub-server --control 0.0.0.0:7077 --data 0.0.0.0:0 --allow-plaintext --tokens off\n\n"
      "Prints `phub-server ready control=HOST:PORT data=PORT pid=N` once it serves, with\n"
      "` http=HOST:PORT` at the end if it serves the page. Logs go to\n"
      "standard error. SIGTERM or SIGINT drains: no new jobs; workers of running ones are told to\n"
      "stop and to write their checkpoints, within drain_timeout_ms; a second signal ends at "
      "once.\n"
      "SIGHUP reads certificates and revocations again. Look at it with `phubctl server stats`.\n"
      "\nExit status: 0 stopped, 1 failed at run time, 2 bad usage or configuration.");
  app.add_option("--config", overrides.config_path,
                 "Configuration file (textproto); its fields are in proto/config/*.proto")
      ->type_name("FILE");
  ServerConfig& given = overrides.given;
  const auto field = [&app](const char* name, const char* type, const char* help, auto set) {
    return app.add_option_function<std::string>(name, set, help)->type_name(type);
  };
  field("--control", "HOST:PORT", "Control address; overrides control_address (port 0: a free one)",
        [&given](const std::string& value) { given.set_control_address(value); });
  field("--data", "HOST:PORT", "Address of the tcp data plane; overrides data_address",
        [&given](const std::string& value) { given.set_data_address(value); });
  field("--http", "HOST:PORT",
        "Serve the web page, and /metrics for Prometheus, there; overrides http_address",
        [&given](const std::string& value) { given.set_http_address(value); });
  field("--state", "FOLDER", "Where tenants, tokens and jobs are kept; overrides state_folder",
        [&given](const std::string& value) { given.set_state_folder(value); });
  auto* const credentials =
      app.add_option("--credentials", overrides.credentials,
                     "TLS with its ca.pem, cert.pem and key.pem; overrides security's")
          ->type_name("FOLDER");
  app.add_flag_callback(
         "--allow-plaintext", [&given] { given.mutable_security()->set_allow_plaintext(true); },
         "No TLS, also on an address that other hosts reach; tokens stay as they are")
      ->excludes(credentials);
  field("--tokens", "WORD",
        "required, or off: everybody may do everything; overrides security.tokens",
        [&given](const std::string& value) { given.mutable_security()->set_tokens(value); });
  app.add_option_function<std::optional<std::uint32_t>>(
         "--cores",
         [&given](const std::optional<std::uint32_t>& cores) {  // none: an empty text
           if (cores) given.set_cores(*cores);
         },
         "Number of pinned cores; overrides cores and cpus")
      ->type_name("N");
  app.add_option("--transports", overrides.transports, "Transports to offer: shm, tcp, verbs")
      ->delimiter(',')
      ->type_name("LIST");
  field("--log-level", "LEVEL", "trace, debug, info, warn, error or off",
        [&given](const std::string& value) { given.set_log_level(value); });
  app.add_flag("--reset-admin-token", overrides.reset_admin_token,
               "Write a further admin token to admin.token in the state folder, and end: for who\n"
               "lost the others. No server may run on that folder meanwhile");
  app.add_flag(
      "--check", overrides.check_only,
      "Read the configuration and its certificates, say what is wrong, and end. Addresses,\n"
      "CPUs and the state folder are tried at the start only");
  app.set_version_flag("--version", version_of("phub-server"));
}

// What is wrong with an option whatever the file says.
Status validate_given(const Overrides& overrides) {
  ServerConfig given = overrides.given;
  for (const std::string& transport : overrides.transports) given.add_transports(transport);
  const Status status = validate_values(given);
  if (!status.ok()) return status.with_context("command line");
  if (!overrides.credentials) return {};
  const auto files = find_credentials(*overrides.credentials);
  return files ? Status() : files.error();
}

Result<ServerConfig> configuration(const Overrides& overrides) {
  PHUB_RETURN_IF_ERROR(validate_given(overrides));
  ServerConfig config;
  if (!overrides.config_path.empty()) {
    PHUB_ASSIGN_OR_RETURN(config, load_server_config(overrides.config_path));
  }
  config.MergeFrom(overrides.given);
  if (overrides.given.has_cores()) config.clear_cpus();
  if (!overrides.transports.empty()) {
    config.mutable_transports()->Clear();
    for (const std::string& transport : overrides.transports) config.add_transports(transport);
    if (!overrides.given.has_data_address() && config.transports_size() == 1 &&
        config.transports(0) == "shm") {
      config.clear_data_address();  // the file's, which has no effect now
    }
  }
  if (overrides.credentials) {
    PHUB_ASSIGN_OR_RETURN(const CredentialFiles files, find_credentials(*overrides.credentials));
    config.mutable_security()->set_ca(files.tls.ca);
    config.mutable_security()->set_certificate(files.tls.certificate);
    config.mutable_security()->set_key(files.tls.key);
  }
  const Status status = validate(config);
  if (!status.ok()) return status.with_context("command line");
  return config;
}

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
  Overrides overrides;
  declare(app, overrides);
  refuse_negative_counts(app);
  app.failure_message(usage_failure);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kExitUsage;
  }
  const Result<ServerConfig> config = configuration(overrides);
  if (!config) return failed(config.error(), kExitUsage);
  if (overrides.check_only) return check(*config);
  if (overrides.reset_admin_token) return reset_admin_token(*config);
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
