// job fields: what a job may say, without asking a server.
#include "common/job/fields.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>

#include "common/job/contradictions.h"
#include "common/text/table.h"
#include "server/phubctl/commands/commands.h"

namespace phub::phubctl {
namespace {

std::string fields_json() {
  nlohmann::ordered_json json;
  for (const FieldInfo& field : job_fields()) {
    json["fields"].push_back({{"name", field.name}, {"takes", field.kind}});
  }
  for (const Contradiction& row : contradictions()) {
    json["contradictions"].push_back({{"field", row.used->field},
                                      {"use", row.used->what},
                                      {"beside", row.beside->what},
                                      {"reason", row.reason},
                                      {"cure", row.cure}});
  }
  return json.dump();
}

}  // namespace

Status print_fields(bool as_json) {
  if (as_json) {
    print(fields_json() + "\n");
    return {};
  }
  Table fields("FIELD|TAKES");
  for (const FieldInfo& field : job_fields()) fields.add({field.name, field.kind});
  Table pairs("CONTRADICTS|BESIDE|WHY|CURE");
  for (const Contradiction& row : contradictions()) {
    pairs.add({std::string(row.used->what), std::string(row.beside->what), std::string(row.reason),
               std::string(row.cure)});
  }
  print(fields.to_string() + "\n" + pairs.to_string());
  return {};
}

}  // namespace phub::phubctl
