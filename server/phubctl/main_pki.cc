// `phubctl pki`.
#include <memory>

#include "server/phubctl/main.h"
#include "server/phubctl/pki/pki.h"

namespace phub::phubctl {
namespace {

constexpr std::uint32_t kDaysMax = 36'500;

void declare_common(CLI::App& command, PkiOptions& options) {
  command.add_option("folder", options.folder, "Where the credentials' folders are")->required();
  command.add_option("--host", options.hosts, "Name or IP address of the server (repeatable)")
      ->type_name("HOST");
  command.add_option("--days", options.days, "How long certificates are valid")
      ->check(CLI::Range(1U, kDaysMax))
      ->capture_default_str();
}

}  // namespace

void declare_pki(CLI::App& app, const bool& as_json, LocalCommand& command) {
  CLI::App& pki = add_subcommand(app, "pki", "Certificates for a lab; asks no server",
                                 "Examples:\n"
                                 "  phubctl pki init pki --host rack1.example\n"
                                 "  phubctl pki issue pki alice --role admin");
  pki.require_subcommand(1);
  auto options = std::make_shared<PkiOptions>();
  CLI::App& init = add_subcommand(
      pki, "init", "A CA, and credentials for each role",
      "Example:\n"
      "  phubctl pki init pki --host rack1.example --host 10.0.0.7\n\n"
      "Makes pki/ca, pki/server, pki/admin, pki/observer and pki/worker and prints what to do\n"
      "next. Nothing is ever overwritten.");
  declare_common(init, *options);
  init.get_option("--host")->required();
  init.callback([options, &as_json, &command] {
    command = [options, &as_json] {
      options->as_json = as_json;
      return pki_init(*options);
    };
  });
  CLI::App& issue = add_subcommand(
      pki, "issue", "One more folder of credentials, signed by the CA",
      "Examples:\n"
      "  phubctl pki issue pki alice --role admin\n"
      "  phubctl pki issue pki server2 --role server --host rack2.example --host 10.0.0.8");
  declare_common(issue, *options);
  issue.add_option("name", options->name, "Name in the certificate, and of the folder")->required();
  issue.add_option("--role", options->role, "admin, observer, worker or server")
      ->capture_default_str();
  issue.callback([options, &as_json, &command] {
    command = [options, &as_json] {
      options->as_json = as_json;
      return pki_issue(*options);
    };
  });
}

}  // namespace phub::phubctl
