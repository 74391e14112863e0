#include "common/rpc/credentials_folder.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <utility>

#include "common/base/whole_file.h"

namespace phub {

Result<CredentialFiles> find_credentials(const std::string& folder) {
  CredentialFiles found;
  const std::array<std::pair<const char*, std::string*>, 5> names = {
      {{"ca.pem", &found.tls.ca},
       {"cert.pem", &found.tls.certificate},
       {"key.pem", &found.tls.key},
       {"token", &found.token},
       {"nonce", &found.nonce}}};
  bool has_any = false;
  for (const auto& [name, path] : names) {
    const std::filesystem::path candidate = std::filesystem::path(folder) / name;
    std::error_code error;
    if (!std::filesystem::exists(candidate, error)) continue;
    *path = candidate.string();
    has_any = true;
  }
  if (has_any) return found;
  return Status(Code::kInvalidArgument, "credentials: " + folder +
                                            " has none of ca.pem, cert.pem, key.pem, token, nonce; "
                                            "`phubctl pki init` makes such folders");
}

Result<std::vector<std::string>> secret_lines(const std::string& path) {
  PHUB_RETURN_IF_ERROR(check_readable_to_end(path));
  std::ifstream file(path);
  if (!file) return errno_status("cannot read " + path, Code::kNotFound);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    const auto first = line.find_first_not_of(" \t\r");
    if (first == std::string::npos) continue;
    lines.push_back(line.substr(first, line.find_last_not_of(" \t\r") - first + 1));
  }
  if (lines.empty()) return Status(Code::kInvalidArgument, path + " is empty");
  return lines;
}

bool is_loopback(std::string_view host) {
  const std::string text(host);
  in_addr four{};
  if (::inet_pton(AF_INET, text.c_str(), &four) == 1) {
    return (ntohl(four.s_addr) >> 24U) == IN_LOOPBACKNET;
  }
  in6_addr six{};
  if (::inet_pton(AF_INET6, text.c_str(), &six) == 1) return IN6_IS_ADDR_LOOPBACK(&six);
  return host == "localhost";  // other names are whatever a name server says
}

Status check_secrecy(bool has_secret, bool is_plaintext, std::string_view host) {
  if (!has_secret || !is_plaintext || is_loopback(host)) return {};
  return {Code::kInvalidArgument, "security.ca: is missing: without TLS everybody on the way to " +
                                      std::string(host) +
                                      " could read the token or nonce; give the CA's certificate "
                                      "(ca.pem in the credentials' folder), or allow_plaintext"};
}

}  // namespace phub
