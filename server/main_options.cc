#include "server/main_options.h"

#include <cstddef>
#include <cstdint>
#include <sstream>

#include "common/base/version.h"
#include "common/config/config.h"
#include "common/rpc/credentials_folder.h"

namespace phub::server {
namespace {

// "a=10.0.1.1:7077,10.0.1.2:7077".
void add_rack(const std::string& word, DirectoryConfig& directory) {
  const std::size_t equals = word.find('=');
  if (equals == std::string::npos) {
    throw CLI::ValidationError("--directory",
                               "\"" + word + "\" is not RACK=HOST:PORT,... with a rack's servers");
  }
  RackConfig& rack = *directory.add_racks();
  rack.set_name(word.substr(0, equals));
  std::istringstream servers(word.substr(equals + 1));
  for (std::string server; std::getline(servers, server, ',');) rack.add_servers(server);
}

void declare_racks(CLI::App& app, CommandLine& line) {
  ServerConfig& given = line.given;
  app.add_option_function<std::string>(
         "--rack", [&given](const std::string& value) { given.set_rack(value); },
         "The rack that this server is in; overrides rack")
      ->type_name("NAME");
  app.add_option_function<std::vector<std::string>>(
         "--directory",
         [&given](const std::vector<std::string>& racks) {
           for (const std::string& rack : racks) add_rack(rack, *given.mutable_directory());
         },
         "A rack and its servers in order, once for each rack; overrides directory")
      ->type_name("RACK=HOST:PORT,...")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option_function<std::string>(
         "--advertise", [&given](const std::string& value) { given.set_advertise_address(value); },
         "By which other racks reach --control; overrides advertise_address")
      ->type_name("HOST:PORT");
  app.add_option("--rack-credentials", line.rack_credentials,
                 "Shown to other racks' servers: its ca.pem, cert.pem and key.pem; overrides\n"
                 "rack_security's")
      ->type_name("FOLDER");
}

template <typename Security>
void set_tls(const TlsFiles& files, Security& security) {
  security.set_ca(files.ca);
  security.set_certificate(files.certificate);
  security.set_key(files.key);
}

// What is wrong with an option whatever the file says.
Status validate_given(const CommandLine& line) {
  ServerConfig given = line.given;
  for (const std::string& transport : line.transports) given.add_transports(transport);
  const Status status = validate_values(given);
  if (!status.ok()) return status.with_context("command line");
  if (!line.credentials) return {};
  const auto files = find_credentials(*line.credentials);
  return files ? Status() : files.error();
}

}  // namespace

void declare(CLI::App& app, CommandLine& line) {
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
      "The server of rack a, for jobs that span a and b:\n"
      "  phub-server --control 127.0.0.1:7071 --rack a --directory a=127.0.0.1:7071 "
      "--directory b=127.0.0.1:7072\n\n"
      "Prints `phub-server ready control=HOST:PORT data=PORT pid=N` once it serves, with\n"
      "` http=HOST:PORT` at the end if it serves the page. Logs go to\n"
      "standard error. SIGTERM or SIGINT drains: no new jobs; workers of running ones are told to\n"
      "stop and to write their checkpoints, within drain_timeout_ms; a second signal ends at "
      "once.\n"
      "SIGHUP reads certificates and revocations again. Look at it with `phubctl server stats`.\n"
      "\nExit status: 0 stopped, 1 failed at run time, 2 bad usage or configuration.");
  app.add_option("--config", line.config_path,
                 "Configuration file (textproto); its fields are in proto/config/*.proto")
      ->type_name("FILE");
  ServerConfig& given = line.given;
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
      app.add_option("--credentials", line.credentials,
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
  declare_racks(app, line);
  app.add_option("--transports", line.transports, "Transports to offer: shm, tcp, verbs")
      ->delimiter(',')
      ->type_name("LIST");
  field("--log-level", "LEVEL", "trace, debug, info, warn, error or off",
        [&given](const std::string& value) { given.set_log_level(value); });
  app.add_flag("--reset-admin-token", line.reset_admin_token,
               "Write a further admin token to admin.token in the state folder, and end: for who\n"
               "lost the others. No server may run on that folder meanwhile");
  app.add_flag(
      "--check", line.check_only,
      "Read the configuration and its certificates, say what is wrong, and end. Addresses,\n"
      "CPUs and the state folder are tried at the start only");
  app.set_version_flag("--version", version_of("phub-server"));
}

Result<ServerConfig> configuration(const CommandLine& line) {
  PHUB_RETURN_IF_ERROR(validate_given(line));
  ServerConfig config;
  if (!line.config_path.empty()) {
    PHUB_ASSIGN_OR_RETURN(config, load_server_config(line.config_path));
  }
  if (line.given.has_directory()) config.clear_directory();
  config.MergeFrom(line.given);
  if (line.given.has_cores()) config.clear_cpus();
  if (!line.transports.empty()) {
    config.mutable_transports()->Clear();
    for (const std::string& transport : line.transports) config.add_transports(transport);
    if (!line.given.has_data_address() && config.transports_size() == 1 &&
        config.transports(0) == "shm") {
      config.clear_data_address();  // the file's, which has no effect now
    }
  }
  if (line.credentials) {
    PHUB_ASSIGN_OR_RETURN(const CredentialFiles files, find_credentials(*line.credentials));
    set_tls(files.tls, *config.mutable_security());
  }
  if (line.rack_credentials) {
    PHUB_ASSIGN_OR_RETURN(const CredentialFiles files, find_credentials(*line.rack_credentials));
    set_tls(files.tls, *config.mutable_rack_security());
  }
  const Status status = validate(config);
  if (!status.ok()) return status.with_context("command line");
  return config;
}

}  // namespace phub::server
