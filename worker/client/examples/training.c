/* Fits y = 3 x by gradient descent on a PHub server, from C. Start a phub-server, then this program
 * once for each worker:
 *
 *   phub-server --control 127.0.0.1:7077 &
 *   example-training 127.0.0.1:7077 2 & example-training 127.0.0.1:7077 2
 *
 * Further options follow as NAME=VALUE. With these two the job spans two racks, and each worker
 * names a server of its own rack:
 *
 *   example-training 127.0.0.1:7071 2 racks=a:1,b:1 encoding=int8 &
 *   example-training 127.0.0.1:7072 2 racks=a:1,b:1 encoding=int8
 */
#include <stdio.h>
#include <string.h>

#include "worker/client/phub_c.h"

static int train(phub_client* client) {
  const phub_key key = {.name = "slope", .elements = 1};
  if (phub_register_keys(client, &key, 1) != 0) return 1;
  float* gradient = phub_gradient(client, 0, NULL);
  const float* slope = phub_parameter(client, 0, NULL);

  *gradient = 0.0F; /* the initial parameter; worker 0's counts */
  if (phub_initialise(client) != 0) return 1;
  for (int step = 0; step < 50; ++step) {
    const float x = 1.0F + 0.1F * (float)(((unsigned)step + phub_worker_index(client)) % 10);
    *gradient = 2.0F * x * (*slope * x - 3.0F * x); /* of (slope x - 3 x)^2 */
    if (phub_push_pull(client, 0) != 0) return 1;
  }
  printf("worker %u of %u: slope %.4f\n", phub_worker_index(client), phub_workers(client),
         (double)*slope);
  return *slope > 2.999F && *slope < 3.001F ? 0 : 1;
}

static int set(phub_options* options, const char* name, const char* value) {
  const char* error = NULL;
  if (phub_options_set(options, name, value, &error) == 0) return 0;
  fprintf(stderr, "%s\n", error);
  return 1;
}

/* NAME=VALUE, which is cut in two. */
static int set_word(phub_options* options, char* word) {
  char* const equals = strchr(word, '=');
  if (equals == NULL) {
    fprintf(stderr, "\"%s\" is not NAME=VALUE\n", word);
    return 1;
  }
  *equals = '\0';
  return set(options, word, equals + 1);
}

int main(int argc, char** argv) {
  if (argc < 3) {
    fprintf(stderr, "usage: %s HOST:PORT WORKERS [NAME=VALUE...]\n", argv[0]);
    return 2;
  }
  const char* const given[][2] = {{"servers", argv[1]},
                                  {"workers", argv[2]},
                                  {"job", "training"},
                                  {"rule", "sgd"},
                                  {"learning_rate", "0.1"}};
  phub_options* options = phub_options_new();
  int wrong = 0;
  for (size_t i = 0; i < sizeof(given) / sizeof(given[0]); ++i) {
    wrong += set(options, given[i][0], given[i][1]);
  }
  for (int i = 3; i < argc; ++i) wrong += set_word(options, argv[i]);
  if (wrong != 0) {
    phub_options_destroy(options);
    return 2;
  }
  phub_client* client = phub_connect(options);
  phub_options_destroy(options);
  const int result = phub_error(client) != NULL || train(client) != 0;
  if (phub_error(client) != NULL) fprintf(stderr, "%s\n", phub_error(client));
  phub_destroy(client);
  return result;
}
