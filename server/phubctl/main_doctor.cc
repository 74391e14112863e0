// `phubctl doctor`.
#include <signal.h>

#include <atomic>
#include <memory>

#include "common/rpc/credentials_folder.h"
#include "server/phubctl/doctor/doctor.h"
#include "server/phubctl/main.h"

namespace phub::phubctl {
namespace {

constexpr double kLeastSeconds = 0.01;
constexpr double kMostSeconds = 60.0;

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

struct Doctor {
  DoctorOptions options;
  DoctorListenOptions listen;
};

void declare_options(CLI::App& app, Doctor& doctor) {
  auto& choices = doctor.options.choices;
  app.add_option("--verbs-devices", choices.devices, "RDMA devices that may be used, best first")
      ->type_name("NAME[:PORT]...");
  app.add_option("--verbs-gid-index", choices.gid_index, "GID to use, instead of choosing one")
      ->type_name("N");
  auto* const peer =
      app.add_option("--peer", doctor.options.peer, "Measure with the doctor that listens there")
          ->type_name("HOST[:PORT]");
  app.add_option("--seconds", doctor.options.seconds, "Of each measurement with the peer, about")
      ->check(CLI::Range(kLeastSeconds, kMostSeconds))
      ->needs(peer)
      ->capture_default_str();
  auto* const listen =
      app.add_option("--listen", doctor.listen.address,
                     "Be the one that another host measures with; default 0.0.0.0:7079")
          ->type_name("ADDRESS:PORT")
          ->expected(0, 1)
          ->excludes(peer);
  app.add_flag("--once", doctor.listen.once, "End after one peer")->needs(listen);
  app.add_option("--sysfs-root", doctor.options.paths.sysfs)->group("");  // for tests
}

}  // namespace

void declare_doctor(CLI::App& app, const bool& as_json, const std::string& credentials,
                    LocalCommand& command) {
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
      "Ctrl-C after the test. With `phubctl --credentials FOLDER` at both ends, the server's "
      "here,\n"
      "only those come in whose certificate is of the same CA.\n\n"
      "Exit status: 0 fine, perhaps with warnings, 1 a check failed.");
  auto doctor = std::make_shared<Doctor>();
  declare_options(sub, *doctor);
  sub.callback([doctor, &sub, &as_json, &credentials, &command] {
    const bool listens = sub.count("--listen") > 0;
    command = [doctor, listens, &as_json, &credentials]() -> Status {
      stop_on_signals();
      if (!credentials.empty()) {
        PHUB_ASSIGN_OR_RETURN(const CredentialFiles files, find_credentials(credentials));
        doctor->options.tls = files.tls;
      }
      return listens ? listen_for_peers(doctor->options, doctor->listen, as_json, stopped)
                     : examine_host(doctor->options, as_json, stopped);
    };
  });
}

}  // namespace phub::phubctl
