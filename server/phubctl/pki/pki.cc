#include "server/phubctl/pki/pki.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "server/phubctl/commands/client.h"
#include "server/phubctl/pki/certificate.h"

namespace phub::phubctl {
namespace {

constexpr std::uint32_t kCaDays = 3650;

Status make_folder(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) == 0) return {};
  return errno_status("cannot make folder " + path,
                      errno == EEXIST ? Code::kAlreadyExists : Code::kPermissionDenied);
}

Status issue_into(const SignedKey& ca, const std::string& folder, const Subject& subject) {
  PHUB_ASSIGN_OR_RETURN(const SignedKey issued, ca.issue(subject));
  PHUB_RETURN_IF_ERROR(make_folder(folder));
  PHUB_RETURN_IF_ERROR(ca.save_certificate(folder + "/ca.pem"));
  PHUB_RETURN_IF_ERROR(issued.save_certificate(folder + "/cert.pem"));
  return issued.save_key(folder + "/key.pem");
}

std::string next_steps(const std::string& folder, const std::string& host) {
  return fmt::format(
      "made {0}/ca, {0}/server, {0}/admin, {0}/observer, {0}/worker\n\n"
      "In the server's configuration:\n"
      "  control_address: \"0.0.0.0:7077\"\n"
      "  data_address: \"0.0.0.0:0\"\n"
      "  state_folder: \"state\"\n"
      "  security {{\n"
      "    ca: \"{0}/server/ca.pem\"\n"
      "    certificate: \"{0}/server/cert.pem\"\n"
      "    key: \"{0}/server/key.pem\"\n"
      "  }}\n\n"
      "Then:\n"
      "  phubctl --server {1}:7077 --credentials {0}/admin tenant create NAME\n"
      "  phubctl --server {1}:7077 --credentials {0}/admin tenant token create NAME "
      "--save {0}/worker/token\n"
      "  phub-worker train CONFIG --server {1}:7077 --credentials {0}/worker\n\n"
      "Keep {0}/ca/key.pem off the servers: who has it can be anybody.",
      folder, host);
}

}  // namespace

Status pki_init(const PkiOptions& options, bool as_json) {
  std::vector<std::string> hosts = options.hosts;
  for (const char* const local : {"localhost", "127.0.0.1", "::1"}) hosts.emplace_back(local);
  PHUB_ASSIGN_OR_RETURN(const SignedKey ca,
                        SignedKey::make_ca({.name = "PHub CA", .days = kCaDays}));
  // What is wrong with a host shows before anything is written.
  PHUB_ASSIGN_OR_RETURN([[maybe_unused]] const SignedKey trial,
                        ca.issue({.name = "trial", .hosts = hosts}));
  std::error_code error;
  if (std::filesystem::exists(options.folder + "/ca", error)) {
    return {Code::kAlreadyExists,
            fmt::format("{}/ca is there already and is not overwritten; `phubctl pki issue` makes "
                        "further certificates with it, or choose another folder",
                        options.folder)};
  }
  std::filesystem::create_directories(options.folder, error);
  const std::string own = options.folder + "/ca";
  PHUB_RETURN_IF_ERROR(make_folder(own));
  PHUB_RETURN_IF_ERROR(ca.save_key(own + "/key.pem"));
  PHUB_RETURN_IF_ERROR(ca.save_certificate(own + "/cert.pem"));
  PHUB_RETURN_IF_ERROR(ca.save_certificate(own + "/ca.pem"));
  PHUB_RETURN_IF_ERROR(
      issue_into(ca, options.folder + "/server",
                 {.name = "phub-server", .unit = "server", .hosts = hosts, .days = options.days}));
  for (const std::string role : {"admin", "observer", "worker"}) {
    PHUB_RETURN_IF_ERROR(issue_into(ca, options.folder + "/" + role,
                                    {.name = role, .unit = role, .days = options.days}));
  }
  if (as_json) {
    print(nlohmann::ordered_json({{"folder", options.folder}, {"hosts", hosts}}).dump());
  } else {
    print(next_steps(std::filesystem::absolute(options.folder).string(), hosts.front()));
  }
  return {};
}

Status pki_issue(const PkiOptions& options, bool as_json) {
  const std::string& role = options.role;
  constexpr std::array kIssued = {"admin", "observer", "worker", "rack", "server"};
  if (std::find(kIssued.begin(), kIssued.end(), role) == kIssued.end()) {
    return {Code::kInvalidArgument,
            fmt::format("--role: \"{}\" is none of {}", role, fmt::join(kIssued, ", "))};
  }
  if ((role == "server") == options.hosts.empty()) {
    return {Code::kInvalidArgument,
            "--host: a server's certificate needs the names and addresses that it is reached by, "
            "others have none"};
  }
  if (options.name.find('/') != std::string::npos || options.name.starts_with('.')) {
    return {Code::kInvalidArgument, "name: must be that of a folder"};
  }
  const std::string own = options.folder + "/ca";
  PHUB_ASSIGN_OR_RETURN(const SignedKey ca, SignedKey::load(own + "/cert.pem", own + "/key.pem"));
  const std::string folder = options.folder + "/" + options.name;
  PHUB_RETURN_IF_ERROR(issue_into(
      ca, folder,
      {.name = options.name, .unit = role, .hosts = options.hosts, .days = options.days}));
  print(as_json ? nlohmann::ordered_json({{"folder", folder}, {"role", role}}).dump()
                : fmt::format("made {} with the role {}", folder, role));
  return {};
}

}  // namespace phub::phubctl
