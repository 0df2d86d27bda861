/* files.h: what the guests share that use a granted folder, through wasi-libc. */
#ifndef FILES_H
#define FILES_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hostile.h"

/* content answers with what a file holds, or with why it cannot be read. */
AW_API int content(const char *path) {
  static char buffer[4096];
  int fd = open(path, O_RDONLY);
  if (fd < 0) return text(aw_cstr(strerror(errno)));
  ssize_t n = read(fd, buffer, sizeof buffer);
  if (n < 0) return text(aw_cstr(strerror(errno)));
  close(fd);
  return text((aw_str){(uint8_t *)buffer, (size_t)n});
}

/* outcome answers with "done", or with the error of the call before. */
AW_API int outcome(int status) { return text(aw_cstr(status == 0 ? "done" : strerror(errno))); }

#endif
