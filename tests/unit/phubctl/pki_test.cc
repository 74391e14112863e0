// Certificates for a lab, and credentials as files.
#include "server/phubctl/pki/pki.h"

#include <catch2/catch.hpp>
#include <filesystem>

#include "common/rpc/credentials.h"
#include "common/rpc/credentials_folder.h"
#include "server/phubctl/pki/certificate.h"
#include "tests/support/temporary_directory.h"

namespace phub::testing {
namespace {

using Catch::Matchers::Contains;
using phubctl::PkiOptions;
using phubctl::SignedKey;

PkiOptions lab(const TemporaryDirectory& folder) {
  return {.folder = folder.path / "pki", .hosts = {"rack1.example", "10.0.0.7", "fe80::1"}};
}

TEST_CASE("one command makes credentials for every role, keys for the owner only") {
  const TemporaryDirectory folder;
  const PkiOptions options = lab(folder);
  REQUIRE(phubctl::pki_init(options, true).ok());
  for (const std::string name : {"ca", "server", "admin", "observer", "worker"}) {
    const std::string own = options.folder + "/" + name;
    CHECK(std::filesystem::status(own + "/key.pem").permissions() ==
          (std::filesystem::perms::owner_read | std::filesystem::perms::owner_write));
    const CredentialFiles files = find_credentials(own).value();
    CHECK(files.token.empty());
    CHECK(channel_credentials(files.tls));
  }
  const std::string key = folder.read("pki/ca/key.pem");
  const Status again = phubctl::pki_init(options, true);
  CHECK(again.code() == Code::kAlreadyExists);
  CHECK_THAT(again.message(), Contains("pki issue"));
  CHECK(folder.read("pki/ca/key.pem") == key);
}

TEST_CASE("the CA issues further credentials, and says what it cannot") {
  const TemporaryDirectory folder;
  PkiOptions options = lab(folder);
  REQUIRE(phubctl::pki_init(options, true).ok());
  options.hosts.clear();
  options.name = "alice";
  options.role = "admin";
  CHECK(phubctl::pki_issue(options, true).ok());
  CHECK(phubctl::pki_issue(options, true).code() == Code::kAlreadyExists);
  options.name = "../alice";
  CHECK(phubctl::pki_issue(options, true).code() == Code::kInvalidArgument);
  options.name = "second";
  options.role = "root";
  CHECK_THAT(phubctl::pki_issue(options, true).message(), Contains("--role"));
  options.role = "server";
  CHECK_THAT(phubctl::pki_issue(options, true).message(), Contains("--host"));
  options.hosts = {"no such,DNS:evil"};
  CHECK_THAT(phubctl::pki_issue(options, true).message(),
             Contains("neither a host name nor an IP"));
  CHECK_FALSE(std::filesystem::exists(options.folder + "/second"));
}

TEST_CASE("files that do not fit are named before anybody connects") {
  const TemporaryDirectory folder;
  REQUIRE(phubctl::pki_init(lab(folder), true).ok());
  const std::string pki = folder.path / "pki";
  const TlsFiles good{.ca = pki + "/server/ca.pem",
                      .certificate = pki + "/server/cert.pem",
                      .key = pki + "/server/key.pem"};
  CHECK(read_server_tls(good));
  TlsFiles files = good;
  files.key = pki + "/admin/key.pem";
  CHECK_THAT(read_server_tls(files).error().message(),
             Contains("security.key") && Contains("is not the key of"));
  files.key = pki + "/none.pem";
  CHECK_THAT(read_server_tls(files).error().message(), Contains("none.pem"));
  files = good;
  files.ca.clear();
  CHECK_FALSE(read_server_tls(files));
  CHECK_THAT(channel_credentials(files).error().message(), Contains("security.ca"));
  folder.write("pki/garbage.pem", "garbage");
  files.ca = pki + "/garbage.pem";
  CHECK_THAT(channel_credentials(files).error().message(), Contains("no certificate in PEM"));
}

TEST_CASE("a folder of credentials may lack some, not all; secrets stay on this host without TLS") {
  const TemporaryDirectory folder;
  CHECK_THAT(find_credentials(folder.path).error().message(), Contains("pki init"));
  CHECK(find_credentials(folder.path).error().code() == Code::kInvalidArgument);  // exit status 2
  folder.write("token", "\n  phub-1-x \n");
  CHECK(find_credentials(folder.path)->tls.ca.empty());
  CHECK(secret_lines(folder.path / "token").value() == std::vector<std::string>{"phub-1-x"});
  folder.write("token", " \n");
  CHECK_FALSE(secret_lines(folder.path / "token"));
  CHECK(check_secrecy(true, true, "127.0.0.1").ok());
  CHECK(check_secrecy(true, true, "::1").ok());
  CHECK(check_secrecy(true, false, "rack1").ok());
  CHECK(check_secrecy(false, true, "rack1").ok());
  CHECK_THAT(check_secrecy(true, true, "rack1").message(), Contains("ca.pem"));
}

}  // namespace
}  // namespace phub::testing
