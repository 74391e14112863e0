// What a tenant sees of a server that it shares.
//
// Pure functions; any thread.
#pragma once

#include <string>

#include "proto/control.pb.h"
#include "server/tenants/tenant.h"

namespace phub::server {

// Leaves in `server` what is the tenant's own and what is nobody's: its jobs on the cores, how busy
// each core is, the ports without their counters. Counts of a core become those of its own jobs,
// figures of all tenants together become 0. `usage`: the tenant's.
void redact_other_tenants(const std::string& tenant, const Usage& usage,
                          control::ServerInfo& server);

}  // namespace phub::server
