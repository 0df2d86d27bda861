// A WASI command whose first argument says what to do.
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static void show(const char *path) {
  char buf[4096];
  FILE *f = fopen(path, "r");
  if (f == NULL) {
    printf("%s: none\n", path);
    return;
  }
  size_t n = fread(buf, 1, sizeof buf, f);
  printf("%s: %.*s\n", path, (int)n, buf);
  fclose(f);
}

int main(int argc, char **argv) {
  const char *what = argc > 1 ? argv[1] : "";
  if (strcmp(what, "echo") == 0) {
    char buf[65536];
    size_t n;
    while ((n = fread(buf, 1, sizeof buf, stdin)) > 0) fwrite(buf, 1, n, stdout);
    return 0;
  }
  if (strcmp(what, "argv") == 0) {
    for (int i = 0; i < argc; i++) printf("%s\n", argv[i]);
    int env = 0;
    for (char **e = environ; e != NULL && *e != NULL; e++) env++;
    printf("env=%d\n", env);
    return 0;
  }
  if (strcmp(what, "fail") == 0) {
    for (int i = 0; i < 5000; i++) fprintf(stderr, "noise %d\n", i);
    fprintf(stderr, "the last word\n");
    return 3;
  }
  if (strcmp(what, "quiet_fail") == 0) return 4;
  if (strcmp(what, "exit_zero") == 0) {
    printf("\"fine\"");
    fflush(stdout);
    exit(0);
  }
  if (strcmp(what, "fail_with_output") == 0) {
    printf("{\"partial\":true}");
    fprintf(stderr, "half done");
    return 5;
  }
  if (strcmp(what, "flood") == 0) {
    static char block[65536];
    memset(block, 'x', sizeof block);
    for (;;) (void)!write(1, block, sizeof block);
  }
  if (strcmp(what, "files") == 0) {
    show("/awaken/call.json");
    show("/awaken/state.json");
    show("/awaken/../etc/passwd");
    show("/etc/passwd");
    show("etc/passwd");
    FILE *f = fopen("/awaken/new", "w");
    printf("write: %s\n", f == NULL ? "refused" : "possible");
    f = fopen("/awaken/call.json", "r+");
    printf("change: %s\n", f == NULL || fputs("x", f) < 0 || fflush(f) != 0 ? "refused" : "possible");
    DIR *d = opendir("/awaken");
    struct dirent *e;
    while (d != NULL && (e = readdir(d)) != NULL)
      if (e->d_name[0] != '.') printf("entry: %s\n", e->d_name);
    printf("root: %s\n", opendir("/") == NULL ? "none" : "there");
    return 0;
  }
  if (strcmp(what, "cat") == 0 || strcmp(what, "size") == 0) {
    char buf[4096];
    FILE *f = fopen(argv[2], "r");
    if (f == NULL) {
      fprintf(stderr, "cannot open %s: %s\n", argv[2], strerror(errno));
      return 1;
    }
    size_t n = fread(buf, 1, sizeof buf, f);
    struct stat st;
    if (stat(argv[2], &st) != 0 || (size_t)st.st_size != n) return 2;
    if (what[0] == 'c') fwrite(buf, 1, n, stdout);
    else printf("%d\n", (int)n);
    return 0;
  }
  if (strcmp(what, "list") == 0) {
    struct dirent **names;
    int n = scandir(argv[2], &names, NULL, alphasort);
    if (n < 0) {
      fprintf(stderr, "cannot list %s\n", argv[2]);
      return 1;
    }
    for (int i = 0; i < n; i++)
      if (names[i]->d_name[0] != '.') printf("%s\n", names[i]->d_name);
    return 0;
  }
  if (strcmp(what, "spin") == 0)
    for (volatile int i = 0;; i++) {
    }
  if (strcmp(what, "sleep") == 0) {
    sleep(3600);
    return 0;
  }
  if (strcmp(what, "trap") == 0) __builtin_trap();
  if (strcmp(what, "memory") == 0) {
    for (;;) {
      char *volatile p = malloc(1 << 20);
      if (p == NULL) abort();
      memset(p, 1, 1 << 20);
    }
  }
  fprintf(stderr, "unknown: %s\n", what);
  return 2;
}
