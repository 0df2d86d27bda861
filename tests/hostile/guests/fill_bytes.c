/* Fills the disk. */
#include "files.h"
static char block[1 << 16];
RUN {
  int fd = open("/workspace/big", O_WRONLY | O_CREAT, 0644);
  if (fd < 0) return text(aw_cstr(strerror(errno)));
  for (int i = 0; i < 1 << 16; i++)
    if (write(fd, block, sizeof block) < 0) return text(aw_cstr(strerror(errno)));
  return text(AW_STR("4 GiB written"));
}
