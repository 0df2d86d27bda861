/* exec: hands its input to awaken_exec as it is, and answers with what comes back.
 * With a secret it reads one first and answers the same.
 */
#include "awaken_json.h"

static int pass_on(void) {
  aw_str input, answer;
  if (!aw_input(&input)) return aw_fail("out of memory");
  aw_buf request = {0};
  aw_put(&request, input);
  if (!aw_ask(awaken_exec, &request, &answer)) return aw_fail("out of memory");
  return aw_output(answer);
}

AW_EXPORT(run)
int run(void) { return pass_on(); }

AW_EXPORT(run_with_secret)
int run_with_secret(void) {
  aw_str secret;
  if (!aw_secret_get("API_TOKEN", &secret) || secret.n == 0) return aw_fail("the secret API_TOKEN is not given");
  return pass_on();
}
