#include "bench/delay/delayed_server.h"

#include "bench/delay/delayed_endpoint.h"
#include "common/config/config.h"
#include "server/serve.h"

namespace phub::bench {

Status run_delayed_server(std::chrono::microseconds delay, const std::string& config_path) {
  PHUB_ASSIGN_OR_RETURN(const ServerConfig config, load_server_config(config_path));
  return server::serve(config, delayed_by(delay));
}

}  // namespace phub::bench
