// The subcommands that ask no server: `phubctl doctor` and `pki`.
#include <signal.h>

#include <atomic>
#include <memory>

#include "common/rpc/credentials_folder.h"
#include "server/phubctl/doctor/doctor.h"
#include "server/phubctl/main.h"
#include "server/phubctl/pki/pki.h"

namespace phub::phubctl {
namespace {

constexpr double kLeastSeconds = 0.01;
constexpr double kMostSeconds = 60.0;
constexpr std::uint32_t kDaysMax = 36'500;

std::atomic<bool> stopped{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler sets it");

// The first Ctrl-C ends what waits, and the report comes; the second ends the process.
void stop_on_signals() {
  struct sigaction action = {};
  action.sa_handler = [](int) { stopped = true; };
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
}

void declare_options(CLI::App& app, DoctorOptions& doctor) {
  auto& choices = doctor.choices;
  app.add_option("--verbs-devices", choices.devices, "RDMA devices that may be used, best first")
      ->type_name("NAME[:PORT]...");
  app.add_option("--verbs-gid-index", choices.gid_index, "GID to use, instead of choosing one")
      ->type_name("N");
  auto* const peer =
      app.add_option("--peer", doctor.peer, "Measure with the doctor that listens there")
          ->type_name("HOST[:PORT]");
  app.add_option("--seconds", doctor.seconds, "Of each measurement with the peer, about")
      ->check(CLI::Range(kLeastSeconds, kMostSeconds))
      ->needs(peer)
      ->capture_default_str();
  auto* const listen =
      app.add_option("--listen", doctor.listen,
                     "Be the one that another host measures with; default 0.0.0.0:7079")
          ->type_name("ADDRESS:PORT")
          ->expected(0, 1)
          ->excludes(peer);
  app.add_flag("--once", doctor.once, "End after one peer")->needs(listen);
  app.add_option("--sysfs-root", doctor.paths.sysfs)->group("");  // for tests
}

void declare_common(CLI::App& command, PkiOptions& options) {
  command.add_option("folder", options.folder, "Where the credentials' folders are")->required();
  command.add_option("--host", options.hosts, "Name or IP address of the server (repeatable)")
      ->type_name("HOST");
  command.add_option("--days", options.days, "How long certificates are valid")
      ->check(CLI::Range(1U, kDaysMax))
      ->capture_default_str();
}

void do_with(CLI::App& sub, LocalCommand& command, const std::shared_ptr<PkiOptions>& options,
             Status (*act)(const PkiOptions&, bool)) {
  sub.callback([options, act, &command] {
    command = [options, act](bool as_json, const auto& /*credentials*/) {
      return act(*options, as_json);
    };
  });
}

}  // namespace

void declare_doctor(CLI::App& app, LocalCommand& command) {
  CLI::App& sub = add_subcommand(
      app, "doctor", "Is this machine fit for PHub? Asks no server",
      "Examples:\n"
      "  phubctl doctor\n"
      "  phubctl doctor --verbs-devices mlx5_1 --verbs-gid-index 3\n"
      "  phubctl doctor --listen 10.0.0.7:7079      on one host, then on another:\n"
      "  phubctl doctor --peer 10.0.0.7\n\n"
      "--peer adds what lies between the two hosts: ping-pong and bandwidth over tcp and, where\n"
      "both have a port that reaches the other's, over verbs; MTU, losses, versions.\n"
      "--listen asks nobody who he is: anyone who reaches the address can take the host's time\n"
      "and a few MiB of its memory. Give an address of the cluster's network, and end it with\n"
      "Ctrl-C after the test. With `phubctl --credentials FOLDER` at both ends (the listener's\n"
      "is a server's), only those come in whose certificate is of the same CA.\n\n"
      "Exit status: 0 fine, perhaps with warnings, 1 a check failed.");
  auto doctor = std::make_shared<DoctorOptions>();
  declare_options(sub, *doctor);
  sub.callback([doctor, &sub, &command] {
    const bool listens = sub.count("--listen") > 0;
    command = [doctor, listens](bool as_json, const std::string& credentials) -> Status {
      stop_on_signals();
      if (!credentials.empty()) {
        PHUB_ASSIGN_OR_RETURN(const CredentialFiles files, find_credentials(credentials));
        doctor->tls = files.tls;
      }
      return listens ? listen_for_peers(*doctor, as_json, stopped)
                     : examine_host(*doctor, as_json, stopped);
    };
  });
}

void declare_pki(CLI::App& app, LocalCommand& command) {
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
  do_with(init, command, options, pki_init);
  CLI::App& issue =
      add_subcommand(pki, "issue", "One more folder of credentials, signed by the CA",
                     "Examples:\n"
                     "  phubctl pki issue pki alice --role admin\n"
                     "  phubctl pki issue pki server2 --role server --host rack2.example \\\n"
                     "      --host 10.0.0.8");
  declare_common(issue, *options);
  issue.add_option("name", options->name, "Name in the certificate, and of the folder")->required();
  issue.add_option("--role", options->role, "admin, observer, worker, rack or server")
      ->capture_default_str();
  do_with(issue, command, options, pki_issue);
}

}  // namespace phub::phubctl
