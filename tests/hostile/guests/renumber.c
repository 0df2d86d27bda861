/* Gives an open file the number 2147483647: the host keeps a list that long, of 16 GiB. */
#include "files.h"
#include <wasi/api.h>
RUN {
  int fd = open("/workspace/data.txt", O_RDONLY);
  if (fd < 0) return text(aw_cstr(strerror(errno)));
  return text(aw_cstr(strerror(__wasi_fd_renumber(fd, 2147483647))));
}
