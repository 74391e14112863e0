#include "common/config/config.h"

#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>

#include "common/base/visible.h"
#include "common/rpc/address.h"
#include "common/rpc/credentials_folder.h"
#include "tests/support/temporary_directory.h"
#include "tests/unit/common/config/config_errors.h"

namespace phub {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;
using Catch::Matchers::Equals;
using Catch::Matchers::StartsWith;

TEST_CASE("an empty server configuration has the documented defaults") {
  const auto config = parse_server_config("", "s.textproto");
  REQUIRE(config);
  CHECK(config->control_address() == "127.0.0.1:7077");
  CHECK(config->heartbeat_deadline_ms() == 5000);
}

TEST_CASE("an unknown field is named with its place and the nearest field") {
  CHECK_THAT(server_error("cores: 1\n\n  coers: 2\n"),
             Equals("s.textproto:3:3: unknown field \"coers\" in phub.ServerConfig; did you mean "
                    "\"cores\"?"));
  CHECK_THAT(server_error("waiting { polcy: \"poll\" }"),
             Equals("s.textproto:1:11: unknown field \"polcy\" in phub.WaitingConfig; did you mean "
                    "\"policy\"?"));
}

TEST_CASE("an unknown field that is like no other lists the fields there are") {
  CHECK_THAT(server_error("waiting { zzzzzzzzzzzzzz: 1 }"),
             Contains("it has policy, spin_iterations, yield_iterations"));
}

TEST_CASE("a value of a wrong type names the field, the place and the cure") {
  CHECK_THAT(server_error("\ncores: \"two\""),
             StartsWith("s.textproto:2:8: field \"cores\": Expected integer") &&
                 Contains("\"two\"") && Contains("without quotes"));
  CHECK_THAT(server_error("cores: -1"), Contains("field \"cores\": Expected integer") &&
                                            EndsWith("a number below 0 is not allowed"));
  CHECK_THAT(server_error("cores: 99999999999"),
             Contains("field \"cores\": Integer out of range (99999999999)"));
  CHECK_THAT(server_error("control_address: 5"),
             Contains("field \"control_address\": Expected string") && Contains("double quotes"));
  CHECK_THAT(server_error("allow_oversubscription: maybe"),
             Contains("field \"allow_oversubscription\"") && Contains("true or false"));
  CHECK_THAT(server_error("cpus: [1, \"x\"]"), Contains("field \"cpus\": Expected integer"));
  CHECK_THAT(server_error("\t\tcores: \"two\" # : {"), Contains("field \"cores\""));
  CHECK_THAT(worker_error("optimizer { learning_rate: \"big\" }"),
             Contains("field \"learning_rate\": Expected double"));
}

TEST_CASE("a field that is set twice is named with its place") {
  CHECK_THAT(server_error("cores: 1\ncores: 2"),
             StartsWith("s.textproto:2:1: field \"cores\" is set twice"));
}

TEST_CASE("broken syntax is reported with its place") {
  CHECK_THAT(server_error("cores 3"), StartsWith("s.textproto:1:7: Expected \":\""));
  CHECK_THAT(server_error("waiting { policy: \"poll\""), StartsWith("s.textproto:1:25: "));
  CHECK_THAT(server_error("}"), StartsWith("s.textproto:1:1: "));
  CHECK_THAT(server_error("control_address: \"a"), StartsWith("s.textproto:1:20: "));
}

TEST_CASE("a server configuration that makes no sense names the place, the field and the cure") {
  const WrongField cases[] = {
      {"\nlog_level: \"inof\"", "s.textproto:2:1: log_level: \"inof\"", "did you mean \"info\"?"},
      {"waiting { policy: \"fast\" }", "s.textproto:1:11: waiting.policy:", "adaptive, poll"},
      {"waiting { policy: \"poll\" spin_iterations: 3 }", "s.textproto:1:26: waiting.spin_iterat",
       "has no effect with policy \"poll\""},
      {"transports: \"shm\"\ntransports: \"udp\"", "s.textproto:2:1: transports:", "shm, tcp"},
      {"transports: [\"shm\", \"shm\"]", "s.textproto:1:", "listed twice"},
      {"transports: \"shm\" data_address: \"[::1]:0\"",
       "s.textproto:1:19: data_address:", "no \"tcp\""},
      {"transports: \"shm\" tcp_buffer_kib: 64", "s.textproto:1:19: tcp_buffer_kib:", "no \"tcp\""},
      {"tcp_buffer_kib: 31", "s.textproto:1:1: tcp_buffer_kib: 31", "32 to 65536"},
      {"control_address: \"localhost\"", "s.textproto:1:1: control_address:", "has no port"},
      {"control_address: \"::1:7077\"", "s.textproto:1:1: control_address:", "[::1]:7077"},
      {"data_address: \"127.0.0.1:70777\"", "s.textproto:1:1: data_address:", "0 to 65535"},
      {"cores: 3\ncpus: [0, 1]", "s.textproto:2:1: cpus: 2 CPUs are listed for 3 cores", "leave"},
      {"cpus: [1, 1]", "s.textproto:1:", "CPU 1 is listed twice"},
      {"cores: 5000", "s.textproto:1:1: cores: 5000", "0 to 4096"},
      {"heartbeat_deadline_ms: 10", "s.textproto:1:1: heartbeat_deadline_ms: 10", "100 to"},
      {"connections_per_core: 0", "s.textproto:1:1: connections_per_core: 0", "1 to"},
      {"drain_timeout_ms: 4000000000", "s.textproto:1:1: drain_timeout_ms:", "0 to"},
  };
  for (const WrongField& c : cases) {
    CHECK_THAT(server_error(c.text), StartsWith(c.start) && Contains(c.part));
  }
}

TEST_CASE("a worker configuration that makes no sense names the place, the field and the cure") {
  const WrongField cases[] = {
      {"servers: \"a:1\"\nservers: \"b:0\"", "w.textproto:2:1: servers:", "port 0"},
      {"servers: \"a:1\"\nservers: \"a:1\"", "w.textproto:2:1: servers:", "listed twice"},
      {"job: \"\"", "w.textproto:1:1: job:", "1 to 256"},
      {"workers: 1025", "w.textproto:1:1: workers: 1025", "1 to 1024"},
      {"workers: 2 worker_index: 2", "w.textproto:1:12: worker_index: 2", "-1 to 1"},
      {"transport: \"rdma\"", "w.textproto:1:1: transport:", "auto, shm, tcp"},
      {"wire_type: \"fp1\"", "w.textproto:1:1: wire_type:", "did you mean \"fp16\"?"},
      {"order: \"any\"", "w.textproto:1:1: order:", "deterministic, arrival"},
      {"chunk_kib: 0", "w.textproto:1:1: chunk_kib: 0", "4 to 4096"},
      {"timeout_ms: 0", "w.textproto:1:1: timeout_ms: 0", "1 to"},
      {"log_level: \"loud\"", "w.textproto:1:1: log_level:", "trace, debug"},
      {"model { name: \"vgg12\" }", "w.textproto:1:9: model.name:", "did you mean \"vgg11\"?"},
      {"model { file: \"\" }", "w.textproto:1:9: model.file:", "give a network description"},
      {"model { file: \"a\" name: \"lenet\" }", "w.textproto:1:19: model.name:", "no effect"},
      {"model { file: \"a\" classes: 3 }", "w.textproto:1:19: model.classes:", "no effect"},
      {"model { image { width: 3 } }", "w.textproto: model.image.height: 0", "1 to"},
      {"model { classes: 1 }", "w.textproto:1:9: model.classes: 1", "2 to"},
      {"data { format: \"png\" }",
       "w.textproto:1:8: data.format:", "idx, cifar10, cifar100, synthetic, folder"},
      {"data { format: \"cifar10\" }", "w.textproto: data.path: is missing", "directory"},
      {"data { format: \"synthetic\" path: \"x\" }", "w.textproto:1:28: data.path:", "no effect"},
      {"data { path: \"x\" flip: true }", "w.textproto:1:18: data.flip:", "have a direction"},
      {"data { path: \"x\" crop {} }", "w.textproto:1:18: data.crop:", "encoded images"},
      {"data { format: \"folder\" path: \"x\" crop { stretch: 0.5 } }",
       "w.textproto:1:42: data.crop.stretch: 0.5", "1 to 16"},
      {"data { path: \"x\" batches_ahead: 65 }",
       "w.textproto:1:18: data.batches_ahead:", "0 to 64"},
      {"data { path: \"x\" threads: 1 batches_ahead: 0 }",
       "w.textproto:1:18: data.threads:", "no effect"},
      {"data { path: \"x\" shift_pixels: 99 }", "w.textproto:1:18: data.shift_pixels:", "0 to 64"},
      {"data { path: \"x\" mixup: 4.5 }", "w.textproto:1:18: data.mixup: 4.5", "0 to 4"},
      {"data { path: \"x\" mixup: -0.1 }", "w.textproto:1:18: data.mixup: -0.1", "0 to 4"},
      {"data { path: \"x\" mixup: nan }", "w.textproto:1:18: data.mixup: nan", "0 to 4"},
      {"data { path: \"x\" progressive { side: 16 until_epoch: 1 } }",
       "w.textproto:1:18: data.progressive", "encoded images"},
      {"data { format: \"folder\" path: \"x\" progressive { side: 4 until_epoch: 1 } }",
       "w.textproto:1:49: data.progressive[0].side: 4", "8 to 16384"},
      {"data { format: \"folder\" path: \"x\" progressive { side: 16 until_epoch: 2 } "
       "progressive { side: 16 until_epoch: 3 } }",
       "w.textproto:1:89: data.progressive[1].side: 16", "17 to 16384"},
      {"data { format: \"folder\" path: \"x\" progressive { side: 16 until_epoch: 2 } "
       "progressive { side: 20 until_epoch: 2 } }",
       "w.textproto:1:98: data.progressive[1].until_epoch: 2", "3 to"},
      {"data { format: \"folder\" path: \"x\" progressive { side: 16 until_epoch: 10 } }",
       "w.textproto:1:58: data.progressive[0].until_epoch: 10", "leaves none of the 10 epochs"},
      {"data { path: \"x\" mixup: 0.2 } train { batch: 7 }", "w.textproto:1:39: train.batch: 7",
       "data.mixup (0.2) mixes: choose an even number"},
      {"data { path: \"x\" synthetic_images: 9 }",
       "w.textproto:1:18: data.synthetic_images:", "no effect"},
      {"data { path: \"https://u:p@h/x\" }", "w.textproto:1:8: data.path: is a URL, and",
       "data pack"},
      {"data { format: \"packed\" path: \"s3://b\" }",
       "w.textproto:1:25: data.path: is a URL of scheme", "http or https"},
      {"data { path: \"x\" spread { memory_mib: 9 } }",
       "w.textproto:1:18: data.spread:", "encoded images"},
      {"data { format: \"folder\" path: \"x\" spread {} }",
       "w.textproto: data.spread.memory_mib: 0", "holds no sample"},
      {"data { format: \"folder\" path: \"x\" spread { memory_mib: 9 address: \"here\" } }",
       "w.textproto:1:58: data.spread.address", "host:port"},
      {"data { format: \"folder\" path: \"x\" cache { memory_mib: 9 } spread { memory_mib: 9 } }",
       "w.textproto:1:68: data.spread.memory_mib", "data.cache.memory_mib"},
      {"data { format: \"synthetic\" synthetic_images: 0 }", "w.textproto:1:28: data.synth", "0"},
  };
  for (const WrongField& c : cases) {
    CHECK_THAT(worker_error(c.text), StartsWith(c.start) && Contains(c.part));
  }
}

TEST_CASE("a configuration changed after loading is checked without a place") {
  ServerConfig config;
  CHECK(validate(config).ok());
  config.set_log_level("loud");
  CHECK_THAT(validate(config).message(), StartsWith("log_level: \"loud\" is not known"));
  WorkerConfig worker;
  CHECK_THAT(validate(worker).message(), StartsWith("data.path: is missing"));
}

TEST_CASE("what is wrong with security is named, with the cure") {
  const WrongField cases[] = {
      {"control_address: \"0.0.0.0:1\"", "control_address: 0.0.0.0:1", "phubctl pki init"},
      {"control_address: \"rack1:1\"", "control_address: rack1:1", "allow_plaintext"},
      {"security { tokens: \"off\" ca: \"a\" }", "security.certificate:", "is missing"},
      {"security { tokens: \"on\" }", "security.tokens: \"on\"", "required, off"},
      {"security { allow_plaintext: true }", "security.tokens:", "needs state_folder"},
      {"security { tokens: \"off\" client_certificates: \"none\" }",
       "security.client_certificates:", "no effect"},
      {"control_address: \"0.0.0.0:1\" security { tokens: \"off\" allow_plaintext: true "
       "encrypt_data: true }",
       "security.encrypt_data:", "needs TLS"},
      {"transports: \"tcp\" transports: \"verbs\" security { tokens: \"off\" encrypt_data: true }",
       "transports:", "cannot be encrypted"},
      {"transports: \"shm\" security { tokens: \"off\" encrypt_data: true }",
       "transports:", "has no \"tcp\""},
      {"join_secret_lifetime_ms: 1", "join_secret_lifetime_ms: 1", "1000 to 3600000"},
  };
  for (const WrongField& c : cases) {
    const auto config = parse_server_config(c.text, "s.textproto");
    REQUIRE_FALSE(config);
    CHECK_THAT(config.error().message(), Contains(c.start) && Contains(c.part));
  }
  for (const char* const right :
       {"control_address: \"[::1]:1\"", "control_address: \"localhost:1\"",
        "control_address: \"0.0.0.0:1\" security { tokens: \"off\" allow_plaintext: true }",
        "control_address: \"0.0.0.0:1\" state_folder: \"s\" security { ca: \"a\" certificate: "
        "\"b\" key: \"c\" encrypt_data: true }",
        "security { tokens: \"off\" encrypt_data: true }"}) {
    const auto config = parse_server_config(right, "s.textproto");
    INFO((config ? "" : config.error().message()));
    CHECK(config.has_value());
  }
  CHECK_THAT(worker_error("data { path: \"x\" } security { certificate: \"a\" }"),
             Contains("security.certificate:"));
  CHECK_THAT(worker_error("data { path: \"x\" } transport: \"verbs\" security { "
                          "require_encryption: true }"),
             Contains("security.require_encryption:") && Contains("cannot be encrypted"));
}

TEST_CASE("a file that is not there or is a directory is named") {
  const auto missing = load_server_config("no/such/file.textproto");
  REQUIRE_FALSE(missing);
  CHECK(missing.error().code() == Code::kNotFound);
  CHECK_THAT(missing.error().message(), StartsWith("no/such/file.textproto: cannot be read"));
  CHECK_THAT(load_worker_config("/").error().message(), Contains("is a directory"));
}

TEST_CASE("a FIFO is refused, not waited for") {
  const std::string path = "config_test-fifo-" + std::to_string(::getpid());
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  CHECK_THAT(load_server_config(path).error().message(), Contains("may never end"));
  CHECK_THAT(secret_lines(path).error().message(), Contains("may never end"));
  ::unlink(path.c_str());
}

TEST_CASE("loopback are its addresses and localhost, not names that begin like one") {
  for (const char* host : {"127.0.0.1", "127.8.9.10", "::1", "0:0:0:0:0:0:0:1", "localhost"}) {
    INFO(host);
    CHECK(is_loopback(host));
  }
  for (const char* host : {"127.attacker.example", "127.0.0.1.attacker.example", "127.1", "", "::2",
                           "localhost.attacker.example", "128.0.0.1", "0.0.0.0", "::"}) {
    INFO(host);
    CHECK_FALSE(is_loopback(host));
  }
}

TEST_CASE("text from elsewhere is made visible") {
  CHECK(visible("a\tb\nGr\u00f6\u00dfe \u4e2d \U0001f600") ==
        "a\tb\nGr\u00f6\u00dfe \u4e2d \U0001f600");
  CHECK(visible("\x1b[31m\r\x7f") == "?[31m??");
  CHECK(visible("a\u202eb\u2066c\u009bd\u200fe\u2028") == R"(a\u202eb\u2066c?d\u200fe\u2028)");
  CHECK(visible("a\ufeffb\u200bc\u00add\U000e0001") == R"(a\ufeffb\u200bc\u00add\udb40\udc01)");
  CHECK(visible(visible("a\ufeff")) == visible("a\ufeff"));
  CHECK(visible("\xff\xc0\xaf\xed\xa0\x80\xe4\xb8") == "????????");  // no UTF-8, each byte
  CHECK(is_visible_name("Gr\u00f6\u00dfe.1"));
  for (const char* name : {"a\u202eb", "a\u0085", "a\"b", "\xff", "a\nb", "\xf4\x90\x80\x80",
                           "\ufeffmnist", "mn\u200bist", "mnist\u00ad", "a\u200db", "a\u2060b",
                           "a\u00a0b", "a\u3000b", "\u3164", "a\ufe0f", "a\U000e0001b"}) {
    INFO(name);
    CHECK_FALSE(is_visible_name(name));
  }
}

TEST_CASE("a relative data path is relative to the configuration file, and a URL is not") {
  const auto directory =
      std::filesystem::temp_directory_path() / ("phub_config_test_" + std::to_string(getpid()));
  std::filesystem::create_directories(directory / "sub");
  const std::string path = (directory / "sub" / "w.textproto").string();
  std::ofstream(path) << "data { path: \"../data\" }";
  const auto config = load_worker_config(path);
  REQUIRE(config);
  CHECK(config->data().path() == (directory / "data").string());
  std::ofstream(path) << "data { path: \"/data\" }";
  CHECK(load_worker_config(path)->data().path() == "/data");
  std::ofstream(path) << "data { format: \"packed\" path: \"https://host/../a//b/\" }";
  CHECK(load_worker_config(path)->data().path() == "https://host/../a//b/");
  std::filesystem::remove_all(directory);
}

TEST_CASE("values that options may mend are told beside the configuration") {
  const TemporaryDirectory directory;
  directory.write("w.textproto", "data { format: \"synthetic\" }\ntrain { batch: 0 }");
  Status wrong;
  const auto config = load_worker_config(directory.path / "w.textproto", wrong);
  REQUIRE(config);
  CHECK_THAT(wrong.message(), Contains("w.textproto:2:9: train.batch: 0 is outside"));
  CHECK(load_worker_config(directory.path / "w.textproto").error().message() == wrong.message());
  directory.write("w.textproto", "nothing: 1");
  CHECK_FALSE(load_worker_config(directory.path / "w.textproto", wrong));
}

TEST_CASE("the server configuration of the repository is valid") {
  const auto config = load_server_config(PHUB_SOURCE_DIR "/configs/server.textproto");
  INFO((config ? "" : config.error().message()));
  CHECK(config.has_value());
}

TEST_CASE("addresses are names, IPv4, or IPv6 in brackets, with a port") {
  CHECK(parse_address("localhost:80").value().host == "localhost");
  CHECK(parse_address("[fe80::1]:7077").value().host == "fe80::1");
  CHECK(parse_address("[fe80::1]:7077").value().port == 7077);
  CHECK(to_string(*parse_address("[::1]:7")) == "[::1]:7");
  CHECK(to_string(*parse_address("10.0.0.1:65535")) == "10.0.0.1:65535");
  for (const char* wrong : {"", ":", "host", "host:", ":80", "[]:80", "a:b", "a:1x", "a:-1",
                            "a:65536", "::1:80", "a b:80", "[::1:80", "http://a:80"}) {
    INFO(wrong);
    CHECK_FALSE(parse_address(wrong).has_value());
  }
}

}  // namespace
}  // namespace phub
