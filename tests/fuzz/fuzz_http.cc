// Any bytes on a connection to the HTTP server: replies of HTTP/1.1 to what can be asked, and an
// end.
#include <sys/socket.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <cstdlib>
#include <string>

#include "common/base/unique_fd.h"
#include "server/http/session.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace phub::server;  // NOLINT(google-build-using-namespace)
  namespace asio = boost::asio;
  int ends[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) std::abort();
  const phub::UniqueFd peer(ends[0]);
  asio::io_context context;
  SessionContext sessions{.handler =
                              [](const HttpRequest& request) {
                                if (request.target.size() > 8192) std::abort();
                                return HttpReply{.body = std::string(request.target.substr(0, 9))};
                              },
                          .deadline = std::chrono::seconds(60),
                          .connections = {}};
  asio::ip::tcp::socket socket(context);
  socket.assign(asio::ip::tcp::v4(), ends[1]);
  start_session(sessions, boost::beast::tcp_stream(std::move(socket)), nullptr);
  if (::send(peer.get(), data, size, MSG_NOSIGNAL) != static_cast<ssize_t>(size)) std::abort();
  ::shutdown(peer.get(), SHUT_WR);
  std::string said;
  for (bool is_over = false; !is_over;) {
    context.restart();
    context.poll();
    char bytes[4096];
    const ssize_t got = ::recv(peer.get(), bytes, sizeof(bytes), MSG_DONTWAIT);
    if (got > 0) said.append(bytes, static_cast<std::size_t>(got));
    is_over = got == 0 || (got < 0 && sessions.connections.empty());
  }
  if (!said.empty() && !said.starts_with("HTTP/1.1 ")) std::abort();
  return 0;
}
