/* Fails with its secret in the message. */
#include "secret.h"
RUN {
  aw_buf b = {0};
  aw_puts(&b, "cannot log in with ");
  aw_put(&b, secret("TOKEN"));
  return aw_fail_buf(&b);
}
