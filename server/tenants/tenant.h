// A tenant: who owns jobs, and how much of the server they may take together.
//
// Plain values and pure functions; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/status.h"

namespace phub::server {

// Whose jobs are those of a server without tenants. It is always there.
inline constexpr std::string_view kDefaultTenant = "default";

// 0: no bound.
struct Quotas {
  std::uint64_t memory_mib = 0;   // that all its jobs pin here
  std::uint32_t connections = 0;  // workers x tcp_streams x cores of its live jobs
  std::uint32_t jobs = 0;         // live ones
  std::uint32_t weight = 1;       // of its share of a core; never 0
  std::uint64_t disk_mib = 0;     // of its snapshots, those being written included
};

struct Tenant {
  std::uint32_t id = 0;  // never given to another tenant; 0: the default tenant's
  std::string name = std::string(kDefaultTenant);
  Quotas quotas = {};
  std::int64_t created_unix_s = 0;
  // The same at the servers of all racks where this tenant is one; empty: it is this server's
  // alone.
  std::string shared_id = {};
};

// What a tenant's live jobs take.
struct Usage {
  std::uint32_t jobs = 0;
  std::uint64_t connections = 0;
  std::uint64_t memory_bytes = 0;
};

// NAME~ID: no tenant's name, and the same only for what one tenant had.
std::string name_of_deleted(const Tenant& tenant);

// A name of a tenant or a token's label: 1 to 64 of a-z A-Z 0-9 . _ -, so that it needs no quotes
// anywhere. Errors: kInvalidArgument names `field`.
Status validate_tenant_name(std::string_view field, std::string_view name);
Status validate(const Quotas& quotas);

// Whether one more job with so many connections, or so many bytes, fits. Errors: kResourceExhausted
// with what is asked for, what is taken and what is allowed.
Status admit_job(const Tenant& tenant, const Usage& usage, std::uint64_t connections);
// `what`: that asks, for the message.
Status admit_memory(const Tenant& tenant, const Usage& usage, std::uint64_t bytes,
                    std::string_view what = "the job");

}  // namespace phub::server
