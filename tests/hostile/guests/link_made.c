/* Makes a symbolic link to the outside and reads through it. */
#include "files.h"
RUN {
  symlink("../outside/canary.txt", "/workspace/way");
  symlink("/etc", "/workspace/etc");
  int fd = open("/workspace/etc/passwd", O_RDONLY);
  if (fd >= 0) return content("/workspace/etc/passwd");
  return content("/workspace/way");
}
