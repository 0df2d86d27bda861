/* Makes files that look small on disk and are huge to whoever copies them. */
#include "files.h"
RUN {
  int fd = open("/workspace/sparse", O_RDWR | O_CREAT, 0644);
  if (fd < 0) return text(aw_cstr(strerror(errno)));
  if (ftruncate(fd, 1ll << 40) == 0) return text(AW_STR("a TiB by truncate"));
  if (posix_fallocate(fd, 0, 1ll << 40) == 0) return text(AW_STR("a TiB by fallocate"));
  if (pwrite(fd, "x", 1, 1ll << 40) == 1) return text(AW_STR("a TiB by a hole"));
  return text(aw_cstr(strerror(errno)));
}
