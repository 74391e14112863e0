#include "common/rendezvous/join_proof.h"

#include <fmt/format.h>

#include <charconv>
#include <vector>

#include "common/rpc/credentials_folder.h"

namespace phub::client {
namespace {

Status read_nonce(const std::string& path, std::size_t server, JoinProof& proof) {
  PHUB_ASSIGN_OR_RETURN(const std::vector<std::string> lines, secret_lines(path));
  if (server >= lines.size()) {
    return {
        Code::kInvalidArgument,
        fmt::format("nonce_file: {} has {} lines; give one for each server", path, lines.size())};
  }
  const std::string& line = lines[server];
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), proof.job_id);
  if (error != std::errc() || *end != ':') {
    return {Code::kInvalidArgument,
            fmt::format("nonce_file: line {} of {} is not JOB_ID:NONCE, as `phubctl job create` "
                        "prints it",
                        server + 1, path)};
  }
  proof.nonce = line.substr(static_cast<std::size_t>(end - line.data()) + 1);
  return {};
}

}  // namespace

std::string JoinProof::metadata() const {
  if (!token.empty()) return "Bearer " + token;
  return nonce.empty() ? "" : fmt::format("Ticket {}:{}", job_id, nonce);
}

Result<JoinProof> read_join_proof(const ClientSecurity& security, std::size_t server) {
  JoinProof proof{.tenant = security.tenant, .token = {}, .nonce = {}};
  if (!security.token_file.empty()) {
    PHUB_ASSIGN_OR_RETURN(const std::vector<std::string> lines, secret_lines(security.token_file));
    proof.token = lines.front();
  } else if (!security.nonce_file.empty()) {
    PHUB_RETURN_IF_ERROR(read_nonce(security.nonce_file, server, proof));
  }
  return proof;
}

}  // namespace phub::client
