/* Moves a file out of the folder, by way of a link and by "..". */
#include "files.h"
RUN {
  int fd = open("/workspace/mine.txt", O_WRONLY | O_CREAT, 0644);
  write(fd, "planted", 7);
  close(fd);
  if (rename("/workspace/mine.txt", "/workspace/../outside/planted.txt") == 0) return outcome(0);
  return outcome(rename("/workspace/mine.txt", "/workspace/found_folder/planted.txt"));
}
