// `phubctl tenant` and `audit`.
#include <memory>

#include "server/phubctl/main.h"

namespace phub::phubctl {
namespace {

struct TenantArguments {
  TenantOptions tenant;
  TokenOptions token;
  std::uint32_t audit_count = 100;
};

void declare_quotas(CLI::App& command, TenantOptions& tenant) {
  command.add_option("name", tenant.name, "Name of the tenant")->required();
  command
      .add_option("--memory-mib", tenant.memory_mib,
                  "Memory that its live jobs may pin; 0: no bound")
      ->type_name("MIB");
  command
      .add_option("--disk-mib", tenant.disk_mib, "Disk that its snapshots may take; 0: no bound")
      ->type_name("MIB");
  command
      .add_option("--connections", tenant.connections,
                  "Workers x tcp_streams x cores of live jobs; 0: no quota, which is half of the "
                  "server's beside other tenants")
      ->type_name("N");
  command
      .add_option("--jobs", tenant.jobs,
                  "Live jobs; 0: no quota, which is half of the server's beside other tenants")
      ->type_name("N");
  command
      .add_option("--weight", tenant.weight,
                  "Its share of a core beside other tenants' (1 to 1000), for jobs from now on")
      ->type_name("N");
  command
      .add_option("--shared-id", tenant.shared_id,
                  "The same word at all racks' servers, where the tenant is one; \"\": not shared")
      ->type_name("WORD");
}

void declare_changes(CLI::App& tenants, const std::shared_ptr<TenantArguments>& options,
                     Command& command) {
  CLI::App& create = add_subcommand(
      tenants, "create", "Make a tenant",
      "Example:\n  phubctl tenant create vision --memory-mib 4096 --jobs 8 --weight 2");
  declare_quotas(create, options->tenant);
  run_with(create, command, options, &TenantArguments::tenant, create_tenant);
  CLI::App& set = add_subcommand(tenants, "set", "Change quotas; what is left out stays",
                                 "Example:\n  phubctl tenant set vision --jobs 16");
  declare_quotas(set, options->tenant);
  run_with(set, command, options, &TenantArguments::tenant, set_tenant);
  CLI::App& remove = add_subcommand(tenants, "delete", "Delete a tenant and its tokens",
                                    "Example:\n  phubctl tenant delete vision --close-jobs");
  remove.add_option("name", options->tenant.name, "Name of the tenant")->required();
  remove.add_flag("--close-jobs", options->tenant.close_jobs, "End its live jobs too");
  run_with(remove, command, options, &TenantArguments::tenant, delete_tenant);
}

void declare_tokens(CLI::App& tenants, const std::shared_ptr<TenantArguments>& options,
                    Command& command) {
  CLI::App& tokens =
      add_subcommand(tenants, "token", "What tenants, observers and administrators show",
                     "Examples:\n"
                     "  phubctl tenant token create vision --save pki/worker/token\n"
                     "  phubctl tenant token list\n"
                     "  phubctl tenant token revoke 7");
  tokens.require_subcommand(1);
  TokenOptions& token = options->token;
  CLI::App& create =
      add_subcommand(tokens, "create", "Make a token; it is shown only once",
                     "Examples:\n"
                     "  phubctl tenant token create vision --label ci --lifetime-hours 720\n"
                     "  phubctl tenant token create vision --save pki/worker/token\n"
                     "  phubctl tenant token create --role observer");
  create.add_option("tenant", token.tenant, "Whose; none for the roles admin and observer");
  create.add_option("--role", token.role, "tenant, admin or observer")->capture_default_str();
  create.add_option("--label", token.label, "For people, in lists and in the audit log");
  create
      .add_option("--lifetime-hours", token.lifetime_hours,
                  "A second (0.0003) to 100 years (876000); 0: until it is revoked")
      ->capture_default_str();
  create.add_option("--save", token.save, "Write it there, readable for you only")
      ->type_name("FILE");
  run_with(create, command, options, &TenantArguments::token, create_token);
  CLI::App& list = add_subcommand(tokens, "list", "All tokens, or one tenant's",
                                  "Example:\n  phubctl tenant token list vision");
  list.add_option("tenant", token.tenant, "Whose");
  run_with(list, command, options, &TenantArguments::token, list_tokens);
  CLI::App& revoke = add_subcommand(tokens, "revoke", "Refuse a token from now on",
                                    "Example:\n  phubctl tenant token revoke 7");
  revoke.add_option("id", token.id, "As `token list` shows it")->required();
  run_with(revoke, command, options, &TenantArguments::token, revoke_token);
}

}  // namespace

void declare_tenants(CLI::App& app, Command& command) {
  auto options = std::make_shared<TenantArguments>();
  CLI::App& tenants =
      add_subcommand(app, "tenant", "Tenants, their quotas and their tokens",
                     "Examples:\n"
                     "  phubctl tenant create vision --memory-mib 4096 --jobs 8\n"
                     "  phubctl tenant token create vision --save pki/worker/token\n"
                     "  phubctl tenant list");
  tenants.require_subcommand(1);
  declare_changes(tenants, options, command);
  add_subcommand(tenants, "list", "All tenants, and what they use of their quotas",
                 "Examples:\n"
                 "  phubctl tenant list\n"
                 "  phubctl --json tenant list\n\n"
                 "With a tenant's token it lists that tenant.")
      .callback([&command] { command = list_tenants; });
  CLI::App& inspect = add_subcommand(tenants, "inspect", "A tenant, its tokens and its jobs",
                                     "Example:\n  phubctl tenant inspect vision");
  inspect.add_option("name", options->tenant.name, "Name of the tenant")->required();
  run_with(inspect, command, options, &TenantArguments::tenant, inspect_tenant);
  declare_tokens(tenants, options, command);
  CLI::App& audit = add_subcommand(app, "audit", "Who changed what, and who was refused",
                                   "Example:\n  phubctl audit --count 20");
  audit.add_option("--count", options->audit_count, "The last so many records, at most 10,000")
      ->check(CLI::Range(1U, 10'000U))
      ->capture_default_str();
  run_with(audit, command, options, &TenantArguments::audit_count, print_audit);
}

}  // namespace phub::phubctl
