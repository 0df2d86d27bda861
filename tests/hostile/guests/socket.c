/* Looks for a socket that somebody left open. */
#include "hostile.h"
WASI(sock_accept) int32_t sock_accept(int32_t fd, int32_t flags, int32_t *out);
WASI(sock_send) int32_t sock_send(int32_t fd, const void *iov, int32_t n, int32_t flags, int32_t *sent);
RUN {
  static struct {
    const char *p;
    size_t n;
  } iov = {"GET / HTTP/1.0\r\n\r\n", 18};
  int32_t out;
  for (int32_t fd = 0; fd < 64; fd++)
    if (sock_accept(fd, 0, &out) == 0 || sock_send(fd, &iov, 1, 0, &out) == 0) return SAY("\"found a socket\"");
  return SAY("\"no socket\"");
}
