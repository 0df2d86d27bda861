// A WASI command that does to its folders what standard input says, one step a
// line, and prints "step: result" with the name of what went wrong. It speaks to
// WASI directly where the library would keep it from trying.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <wasi/api.h>

static const char *name_of(int e) {
  switch (e) {
    case 0: return "ok";
    case __WASI_ERRNO_ACCES: return "EACCES";
    case __WASI_ERRNO_BADF: return "EBADF";
    case __WASI_ERRNO_EXIST: return "EEXIST";
    case __WASI_ERRNO_INVAL: return "EINVAL";
    case __WASI_ERRNO_IO: return "EIO";
    case __WASI_ERRNO_ISDIR: return "EISDIR";
    case __WASI_ERRNO_LOOP: return "ELOOP";
    case __WASI_ERRNO_NAMETOOLONG: return "ENAMETOOLONG";
    case __WASI_ERRNO_NOENT: return "ENOENT";
    case __WASI_ERRNO_NOSYS: return "ENOSYS";
    case __WASI_ERRNO_NOTCAPABLE: return "ENOTCAPABLE";
    case __WASI_ERRNO_NOTDIR: return "ENOTDIR";
    case __WASI_ERRNO_NOTEMPTY: return "ENOTEMPTY";
    case __WASI_ERRNO_PERM: return "EPERM";
    case __WASI_ERRNO_ROFS: return "EROFS";
  }
  static char buf[32];
  snprintf(buf, sizeof buf, "errno %d", e);
  return buf;
}

static __wasi_fd_t fd_at(int n) { return (__wasi_fd_t)n; }

// preopen is the descriptor of the mount with that name.
static int preopen(const char *mount) {
  for (int fd = 3; fd < 20; fd++) {
    char buf[256] = {0};
    __wasi_prestat_t st;
    if (__wasi_fd_prestat_get(fd_at(fd), &st) != 0) continue;
    if (st.u.dir.pr_name_len >= sizeof buf) continue;
    if (__wasi_fd_prestat_dir_name(fd_at(fd), (uint8_t *)buf, st.u.dir.pr_name_len) == 0 && strcmp(buf, mount) == 0) return fd;
  }
  return -1;
}

static int result(int n) { return n < 0 ? errno : 0; }

static int put(const char *path, int flags, const char *text, off_t at) {
  int fd = open(path, flags, 0666);
  if (fd < 0) return errno;
  int e = 0;
  size_t n = strlen(text);
  if (at >= 0 ? pwrite(fd, text, n, at) != (ssize_t)n : write(fd, text, n) != (ssize_t)n) e = errno;
  if (close(fd) < 0 && e == 0) e = errno;
  return e;
}

static int fill(const char *path, long bytes) {
  static char block[65536];
  memset(block, 'x', sizeof block);
  int fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0666);
  if (fd < 0) return errno;
  int e = 0;
  while (bytes > 0 && e == 0) {
    size_t n = bytes > (long)sizeof block ? sizeof block : (size_t)bytes;
    if (write(fd, block, n) != (ssize_t)n) e = errno;
    bytes -= (long)n;
  }
  close(fd);
  return e;
}

static char text[70000];

static int step(char *op, char *a, char *b) {
  static char long_name[8192];
  if (strcmp(op, "read") == 0 || strcmp(op, "readnofollow") == 0) {
    int fd = open(a, O_RDONLY | (op[4] ? O_NOFOLLOW : 0));
    if (fd < 0) return errno;
    ssize_t n = read(fd, text, sizeof text - 1);
    int e = result((int)n);
    close(fd);
    text[n < 0 ? 0 : n] = 0;
    return e;
  }
  if (strcmp(op, "write") == 0) return put(a, O_WRONLY | O_CREAT | O_TRUNC, b, -1);
  if (strcmp(op, "over") == 0) return put(a, O_WRONLY, b, -1);
  if (strcmp(op, "excl") == 0) return put(a, O_WRONLY | O_CREAT | O_EXCL, b, -1);
  if (strcmp(op, "append") == 0) return put(a, O_WRONLY | O_CREAT | O_APPEND, b, -1);
  if (strcmp(op, "pappend") == 0) return put(a, O_WRONLY | O_APPEND, b, 0);
  if (strcmp(op, "pwrite") == 0) {
    int fd = open(a, O_WRONLY | O_CREAT, 0666);
    if (fd < 0) return errno;
    int e = result((int)pwrite(fd, "x", 1, atoll(b)));
    close(fd);
    return e;
  }
  if (strcmp(op, "setappend") == 0) {
    int fd = open(a, O_RDWR);
    if (fd < 0) return errno;
    int e = result(fcntl(fd, F_SETFL, O_APPEND));
    if (e == 0 && write(fd, b, strlen(b)) < 0) e = errno;
    close(fd);
    return e;
  }
  if (strcmp(op, "fill") == 0) return fill(a, atol(b));
  if (strcmp(op, "size") == 0) {
    struct stat st;
    int e = result(stat(a, &st));
    if (e == 0) snprintf(text, sizeof text, "%lld", (long long)st.st_size);
    return e;
  }
  if (strcmp(op, "ids") == 0) {
    struct stat st;
    int e = result(stat(a, &st));
    if (e == 0) snprintf(text, sizeof text, "%llu %llu", (unsigned long long)st.st_dev, (unsigned long long)st.st_ino);
    return e;
  }
  if (strcmp(op, "truncate") == 0) {
    int fd = open(a, O_WRONLY);
    if (fd < 0) return errno;
    int e = result(ftruncate(fd, atoll(b)));
    close(fd);
    return e;
  }
  if (strcmp(op, "rotruncate") == 0) {  // through a descriptor that only reads
    int fd = open(a, O_RDONLY);
    if (fd < 0) return errno;
    int e = __wasi_fd_filestat_set_size(fd_at(fd), 0);
    close(fd);
    return e;
  }
  if (strcmp(op, "allocate") == 0) {
    int fd = open(a, O_WRONLY | O_CREAT, 0666);
    if (fd < 0) return errno;
    int e = __wasi_fd_allocate(fd_at(fd), 0, (__wasi_filesize_t)atoll(b));
    close(fd);
    return e;
  }
  if (strcmp(op, "mkdir") == 0) return result(mkdir(a, 0777));
  if (strcmp(op, "rmdir") == 0) return result(rmdir(a));
  if (strcmp(op, "unlink") == 0) return result(unlink(a));
  if (strcmp(op, "rename") == 0) return result(rename(a, b));
  if (strcmp(op, "link") == 0) return result(link(a, b));
  if (strcmp(op, "symlink") == 0) return result(symlink(a, b));
  if (strcmp(op, "readlink") == 0) {
    ssize_t n = readlink(a, text, sizeof text - 1);
    int e = result((int)n);
    text[n < 0 ? 0 : n] = 0;
    return e;
  }
  if (strcmp(op, "utimes") == 0 || strcmp(op, "utimesnofollow") == 0) {
    struct timespec t[2] = {{1000, 5}, {2000, 7}};
    return result(utimensat(AT_FDCWD, a, t, op[6] ? AT_SYMLINK_NOFOLLOW : 0));
  }
  if (strcmp(op, "futimes") == 0) {
    struct timespec t[2] = {{1000, 5}, {2000, 7}};
    int fd = open(a, O_RDONLY);
    if (fd < 0) return errno;
    int e = result(futimens(fd, t));
    close(fd);
    return e;
  }
  if (strcmp(op, "list") == 0) {
    DIR *d = opendir(a);
    if (d == NULL) return errno;
    int n = 0;
    for (struct dirent *e; (e = readdir(d)) != NULL;)
      if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0) n++;
    closedir(d);
    snprintf(text, sizeof text, "%d", n);
    return 0;
  }
  if (strcmp(op, "hugelist") == 0) {  // claims a buffer that it does not have
    __wasi_size_t used;
    int e = __wasi_fd_readdir(fd_at(preopen(a)), (uint8_t *)text, 0xfffffff0u, 0, &used);
    text[0] = 0;
    return e;
  }
  if (strcmp(op, "many") == 0) {  // many files below a, until one fails
    for (int i = 0; i < atoi(b); i++) {
      char path[512];
      snprintf(path, sizeof path, "%s/f%06d", a, i);
      int e = put(path, O_WRONLY | O_CREAT, "", -1);
      if (e != 0) {
        snprintf(text, sizeof text, "%d", i);
        return e;
      }
    }
    return 0;
  }
  if (strcmp(op, "nest") == 0) {  // folders in each other, until one fails
    snprintf(long_name, sizeof long_name, "%s", a);
    for (int i = 0; i < atoi(b); i++) {
      strcat(long_name, "/d");
      int e = result(mkdir(long_name, 0777));
      if (e != 0) {
        snprintf(text, sizeof text, "%d", i);
        return e;
      }
    }
    return 0;
  }
  if (strcmp(op, "longname") == 0) {
    memset(long_name, 'n', sizeof long_name);
    snprintf(long_name, sizeof long_name, "%s/", a);
    long_name[strlen(a) + 1] = 'n';
    long_name[strlen(a) + 1 + (size_t)atoi(b)] = 0;
    return put(long_name, O_WRONLY | O_CREAT, "", -1);
  }
  if (strcmp(op, "openmany") == 0) {  // left open, until one fails
    for (int i = 0; i < atoi(b); i++)
      if (open(a, O_RDONLY) < 0) {
        int e = errno;
        snprintf(text, sizeof text, "%d", i);
        for (int fd = 3; fd < 300; fd++) {
          __wasi_prestat_t st;
          if (__wasi_fd_prestat_get(fd_at(fd), &st) != 0) close(fd);
        }
        return e;
      }
    return 0;
  }
  if (strcmp(op, "orphans") == 0) {  // files that are written, unlinked and held open
    int e = 0, kept[50], n = 0;
    for (int i = 0; i < atoi(b) && e == 0; i++) {
      if ((e = fill(a, 300000)) != 0) break;
      int fd = open(a, O_RDONLY);
      if (fd < 0) return errno;
      kept[n++] = fd;
      e = result(unlink(a));
    }
    snprintf(text, sizeof text, "%d", n);
    while (n > 0) close(kept[--n]);
    unlink(a);
    return e;
  }
  if (strcmp(op, "raw") == 0) {  // path_open of b below the mount a, nothing cleaned
    __wasi_fd_t fd;
    int e = __wasi_path_open(fd_at(preopen(a)), __WASI_LOOKUPFLAGS_SYMLINK_FOLLOW, b, 0, __WASI_RIGHTS_FD_READ, 0, 0, &fd);
    if (e != 0) return e;
    ssize_t n = read((int)fd, text, sizeof text - 1);
    text[n < 0 ? 0 : n] = 0;
    close((int)fd);
    return 0;
  }
  if (strcmp(op, "rawsub") == 0) {  // path_open of b below an open folder a
    int dir = open(a, O_RDONLY | O_DIRECTORY);
    if (dir < 0) return errno;
    __wasi_fd_t fd;
    int e = __wasi_path_open(fd_at(dir), __WASI_LOOKUPFLAGS_SYMLINK_FOLLOW, b, 0, __WASI_RIGHTS_FD_READ, 0, 0, &fd);
    close(dir);
    if (e != 0) return e;
    ssize_t n = read((int)fd, text, sizeof text - 1);
    text[n < 0 ? 0 : n] = 0;
    close((int)fd);
    return 0;
  }
  if (strcmp(op, "rawsymlink") == 0) return __wasi_path_symlink(a, fd_at(preopen("/w")), b);
  if (strcmp(op, "rawtrunc") == 0) {  // O_TRUNC with the right to read alone
    __wasi_fd_t fd;
    int e = __wasi_path_open(fd_at(preopen(a)), 0, b, __WASI_OFLAGS_TRUNC, __WASI_RIGHTS_FD_READ, 0, 0, &fd);
    if (e == 0) close((int)fd);
    return e;
  }
  if (strcmp(op, "stdio") == 0) {  // what the library does with a file
    FILE *f = fopen(a, "w+");
    if (f == NULL) return errno;
    for (int i = 0; i < 1000; i++) fprintf(f, "line %d\n", i);
    if (fseek(f, 0, SEEK_SET) != 0) return errno;
    int n = 0;
    while (fgets(text, sizeof text, f) != NULL) n++;
    long end = ftell(f);
    fseek(f, -9, SEEK_END);
    char last[16] = {0};
    if (fgets(last, sizeof last, f) == NULL) return errno;
    last[strcspn(last, "\n")] = 0;
    if (fclose(f) != 0) return errno;
    if ((f = fopen(a, "a")) == NULL || fputs("tail\n", f) < 0 || fclose(f) != 0) return errno;
    struct stat st;
    if (stat(a, &st) != 0) return errno;
    snprintf(text, sizeof text, "%d lines, %ld, [%s], %lld", n, end, last, (long long)st.st_size);
    return 0;
  }
  if (strcmp(op, "fail") == 0) exit(7);
  return __WASI_ERRNO_NOSYS;
}

int main(void) {
  static char line[8192];
  while (fgets(line, sizeof line, stdin) != NULL) {
    line[strcspn(line, "\n")] = 0;
    char *op = strtok(line, " "), *a = strtok(NULL, " "), *b = strtok(NULL, "");
    if (op == NULL) continue;
    text[0] = 0;
    int e = step(op, a ? a : "", b ? b : "");
    printf("%s %s: %s%s%s\n", op, a ? a : "", name_of(e), text[0] ? " " : "", text);
  }
  return 0;
}
