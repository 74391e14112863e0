// Has a job's servers restore it from snapshots, before its workers join.
//
// A function of the calling thread, which asks all servers at once.
#pragma once

#include <chrono>
#include <stop_token>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/rendezvous/client_security.h"

namespace phub::client {

// `files`: entry s is what server s took, as Rendezvous::snapshot named it. The job is called `job`
// from then on, and its workers' own (RestoreRequest.by_workers). A job of that name that waits
// without members is changed to the restored one.
// Keeps trying until `timeout` while a server does not reply. `stop` ends it with kAborted.
// Errors name the server: kAlreadyExists (a job of that name has members), kNotFound (the file is
// gone), kDataLoss (it is damaged), kUnavailable, kPermissionDenied (the token may not restore).
// REQUIRES: as many files as addresses.
Status restore_all(const std::vector<std::string>& addresses, const std::vector<std::string>& files,
                   const std::string& job, std::chrono::milliseconds timeout,
                   const ClientSecurity& security = {}, const std::stop_token& stop = {});

}  // namespace phub::client
