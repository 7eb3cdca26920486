/* Preloaded into a process, this kills it at its n-th change of a folder: at the creation of a file or folder, at the
   first write to a file (of which half is done), at a rename, a link or a removal. It sees what any library does. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#define FILES 65536
static char folder[4096];
static atomic_long seen, fatal;
static atomic_char fresh[FILES];

void kill_at(const char *under, long n) {
    strncpy(folder, under, sizeof folder - 1);
    seen = 0;
    fatal = n;
}

long changes_seen(void) { return seen; }

static int inside(const char *path) {
    return folder[0] && path && strncmp(path, folder, strlen(folder)) == 0;
}

/* Whether this change is the fatal one. */
static int change(void) { return atomic_fetch_add(&seen, 1) + 1 == fatal; }

static void die(void) { kill(getpid(), SIGKILL); pause(); }

#define REAL(name) ((typeof(&name))dlsym(RTLD_NEXT, #name))

static void opened(int file, int flags, const char *path) {
    if (file >= 0 && file < FILES) fresh[file] = (flags & (O_WRONLY | O_RDWR)) && inside(path);
}

#define OPEN(name)                                                          \
    int name(const char *path, int flags, ...) {                            \
        va_list rest; va_start(rest, flags);                                \
        mode_t mode = (flags & (O_CREAT | O_TMPFILE)) ? va_arg(rest, mode_t) : 0; \
        va_end(rest);                                                       \
        if ((flags & O_CREAT) && inside(path) && change()) die();           \
        int file = REAL(name)(path, flags, mode);                           \
        opened(file, flags, path);                                          \
        return file;                                                        \
    }
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                                        \
    int name(int at, const char *path, int flags, ...) {                    \
        va_list rest; va_start(rest, flags);                                \
        mode_t mode = (flags & (O_CREAT | O_TMPFILE)) ? va_arg(rest, mode_t) : 0; \
        va_end(rest);                                                       \
        if ((flags & O_CREAT) && inside(path) && change()) die();           \
        int file = REAL(name)(at, path, flags, mode);                       \
        opened(file, flags, path);                                          \
        return file;                                                        \
    }
OPENAT(openat)
OPENAT(openat64)

static int first_write(int file) {
    return file >= 0 && file < FILES && atomic_exchange(&fresh[file], 0) && change();
}

ssize_t write(int file, const void *bytes, size_t size) {
    if (first_write(file)) { REAL(write)(file, bytes, size / 2); die(); }
    return REAL(write)(file, bytes, size);
}
ssize_t pwrite64(int file, const void *bytes, size_t size, off64_t at) {
    if (first_write(file)) { REAL(pwrite64)(file, bytes, size / 2, at); die(); }
    return REAL(pwrite64)(file, bytes, size, at);
}
ssize_t writev(int file, const struct iovec *parts, int count) {
    if (first_write(file)) { if (count) REAL(write)(file, parts[0].iov_base, parts[0].iov_len / 2); die(); }
    return REAL(writev)(file, parts, count);
}

#define TWO(name) \
    int name(const char *from, const char *to) { if (inside(to) && change()) die(); return REAL(name)(from, to); }
TWO(rename)
TWO(link)

int renameat(int at, const char *from, int other, const char *to) {
    if (inside(to) && change()) die();
    return REAL(renameat)(at, from, other, to);
}
int linkat(int at, const char *from, int other, const char *to, int flags) {
    if (inside(to) && change()) die();
    return REAL(linkat)(at, from, other, to, flags);
}

#define ONE(name) int name(const char *path) { if (inside(path) && change()) die(); return REAL(name)(path); }
ONE(unlink)
ONE(rmdir)

int unlinkat(int at, const char *path, int flags) {
    /* Relative to an open folder: all removals count, since few happen elsewhere. */
    if (folder[0] && change()) die();
    return REAL(unlinkat)(at, path, flags);
}
int mkdir(const char *path, mode_t mode) {
    struct stat there;
    if (inside(path) && stat(path, &there) != 0 && change()) die();
    return REAL(mkdir)(path, mode);
}
