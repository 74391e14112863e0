// racks.
#include <fmt/format.h>

#include <string>

#include "common/text/table.h"
#include "server/phubctl/commands/commands.h"

namespace phub::phubctl {
namespace {

std::string listed_racks_text(const control::ListRacksReply& reply) {
  if (reply.own_rack().empty()) {
    return "no racks are known here; give rack and directory in the server's configuration "
           "(proto/config.proto)";
  }
  Table table("RACK|SERVER|");
  for (const control::RackInfo& rack : reply.racks()) {
    for (const std::string& server : rack.servers()) {
      const bool is_own = rack.name() == reply.own_rack() && server == reply.own_address();
      table.add({rack.name(), server, is_own ? "this server" : ""});
    }
  }
  std::string text = table.to_string();
  if (!reply.source().empty()) text += fmt::format("\nfrom {}\n", reply.source());
  if (!reply.trouble().empty()) {
    text += fmt::format("as it was {} ago: {}\n", human_seconds(reply.trouble_seconds()),
                        reply.trouble());
  }
  if (reply.keys_left_out() > 0) {
    text +=
        fmt::format("{} keys under the prefix name no server, or are too many, and were left out\n",
                    human_count(reply.keys_left_out()));
  }
  return text;
}

}  // namespace

Status list_racks(const Session& session) {
  return session.show(&control::Racks::Stub::List, control::ListRacksRequest(), listed_racks_text);
}

}  // namespace phub::phubctl
