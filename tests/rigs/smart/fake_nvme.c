/* A preloaded library that gives the real smartctl an NVMe controller whose answers come from a text file.
 *
 *   cc -shared -fPIC -O1 -o fake_nvme.so fake_nvme.c -ldl
 *   LD_PRELOAD=$PWD/fake_nvme.so FAKE_NVME=/dev/nvme8=$PWD/a.conf,/dev/nvme9=$PWD/b.conf smartctl -a /dev/nvme9
 *
 * The file is read again at every ioctl. It has one key=value per line: model serial fw temp_k spare spare_thr used
 * critical_warning duread duwritten reads writes busy hours cycles unsafe media_errors err_entries warn_time crit_time
 * sensor1_k sensor2_k warn_k crit_k capacity; and faults: open_errno=13, ioctl_errno=5, delay_ms=5000.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>
struct cmd {
    uint8_t op, fl;
    uint16_t r;
    uint32_t nsid, c2, c3;
    uint64_t md, addr;
    uint32_t mdl, dl, c10, c11, c12, c13, c14, c15, to, res;
};
static char *fdc[1024];
static char *conf(const char *path) {
    static char b[512];
    const char *e = getenv("FAKE_NVME");
    size_t n = strlen(path);
    while (e && *e) {
        const char *c = strchr(e, ',');
        size_t l = c ? (size_t)(c - e) : strlen(e);
        if (l > n && !strncmp(e, path, n) && e[n] == '=') {
            snprintf(b, sizeof b, "%.*s", (int)(l - n - 1), e + n + 1);
            return b;
        }
        e = c ? c + 1 : 0;
    }
    return 0;
}
static int get(const char *cf, const char *k, char *o, size_t n) {
    FILE *f = fopen(cf, "r");
    char l[512];
    size_t m = strlen(k);
    int ok = 0;
    if (!f) return 0;
    while (fgets(l, sizeof l, f)) {
        if (!strncmp(l, k, m) && l[m] == '=') {
            l[strcspn(l, "\r\n")] = 0;
            snprintf(o, n, "%s", l + m + 1);
            ok = 1;
        }
    }
    fclose(f);
    return ok;
}
static uint64_t num(const char *cf, const char *k, uint64_t d) {
    char b[64];
    return get(cf, k, b, sizeof b) ? strtoull(b, 0, 0) : d;
}
static int do_open(const char *p, int fl, mode_t m, const char *sym) {
    char *c = conf(p);
    int (*real)(const char *, int, ...) = dlsym(RTLD_NEXT, sym);
    if (!c) return real(p, fl, m);
    int e = num(c, "open_errno", 0);
    if (e) {
        errno = e;
        return -1;
    }
    int fd = real("/dev/null", O_RDWR);
    if (fd >= 0 && fd < 1024) fdc[fd] = strdup(c);
    return fd;
}
int open(const char *p, int fl, ...) {
    va_list a;
    va_start(a, fl);
    mode_t m = va_arg(a, mode_t);
    va_end(a);
    return do_open(p, fl, m, "open");
}
int open64(const char *p, int fl, ...) {
    va_list a;
    va_start(a, fl);
    mode_t m = va_arg(a, mode_t);
    va_end(a);
    return do_open(p, fl, m, "open64");
}
int close(int fd) {
    if (fd >= 0 && fd < 1024 && fdc[fd]) {
        free(fdc[fd]);
        fdc[fd] = 0;
    }
    return ((int (*)(int))dlsym(RTLD_NEXT, "close"))(fd);
}
static int fg(const char *pat, int fl, int (*ef)(const char *, int), glob_t *g, const char *sym) {
    int r = ((int (*)(const char *, int, int (*)(const char *, int), glob_t *))dlsym(RTLD_NEXT, sym))(pat, fl, ef, g);
    const char *e = getenv("FAKE_NVME");
    if (e && !strcmp(pat, "/dev/nvme[0-9]")) {
        if (r) {
            memset(g, 0, sizeof *g);
        }
        char t[512];
        snprintf(t, sizeof t, "%s", e);
        char *s, *w;
        for (w = strtok_r(t, ",", &s); w; w = strtok_r(0, ",", &s)) {
            w[strcspn(w, "=")] = 0;
            g->gl_pathv = realloc(g->gl_pathv, (g->gl_pathc + 2) * sizeof(char *));
            g->gl_pathv[g->gl_pathc++] = strdup(w);
            g->gl_pathv[g->gl_pathc] = 0;
        }
        r = 0;
    }
    return r;
}
int glob(const char *p, int f, int (*e)(const char *, int), glob_t *g) { return fg(p, f, e, g, "glob"); }
int glob64(const char *p, int f, int (*e)(const char *, int), glob64_t *g) {
    return fg(p, f, e, (glob_t *)g, "glob64");
}
int fstat(int fd, struct stat *st) {
    int r = ((int (*)(int, struct stat *))dlsym(RTLD_NEXT, "fstat"))(fd, st);
    if (!r && fd >= 0 && fd < 1024 && fdc[fd]) {
        st->st_mode = S_IFCHR | 0600;
        st->st_rdev = makedev(240, 9);
    }
    return r;
}
static void le(uint8_t *p, uint64_t v, int n) {
    for (int i = 0; i < n; i++)
        p[i] = v >> (8 * i);
}
static void str(uint8_t *p, const char *cf, const char *k, const char *d, int n) {
    char b[128];
    if (!get(cf, k, b, sizeof b)) snprintf(b, sizeof b, "%s", d);
    memset(p, ' ', n);
    memcpy(p, b, strlen(b) > (size_t)n ? (size_t)n : strlen(b));
}
int ioctl(int fd, unsigned long rq, ...) {
    va_list a;
    va_start(a, rq);
    void *p = va_arg(a, void *);
    va_end(a);
    if (fd < 0 || fd >= 1024 || !fdc[fd])
        return ((int (*)(int, unsigned long, ...))dlsym(RTLD_NEXT, "ioctl"))(fd, rq, p);
    const char *cf = fdc[fd];
    uint64_t d = num(cf, "delay_ms", 0);
    if (d) usleep(d * 1000);
    int e = num(cf, "ioctl_errno", 0);
    if (e) {
        errno = e;
        return -1;
    }
    if (rq == 0x4E40) return 1;
    if (rq != 0xC0484E41) {
        errno = ENOTTY;
        return -1;
    }
    struct cmd *c = p;
    uint8_t *b = (uint8_t *)(uintptr_t)c->addr;
    if (b) memset(b, 0, c->dl);
    c->res = 0;
    uint64_t cap = num(cf, "capacity", 1920383410176ULL);
    if (c->op == 6) {
        if ((c->c10 & 0xff) == 1) {
            le(b, 0x144d, 2);
            le(b + 2, 0x144d, 2);
            str(b + 4, cf, "serial", "S000", 20);
            str(b + 24, cf, "model", "FAKE NVMe", 40);
            str(b + 64, cf, "fw", "1.0", 8);
            b[72] = 2;
            b[73] = 0x38;
            b[74] = 0x25;
            b[77] = 9;
            le(b + 78, 4, 2);
            le(b + 80, 0x10400, 4);
            b[261] = 0x0f;
            b[262] = 63;
            b[263] = 0;
            le(b + 266, num(cf, "warn_k", 358), 2);
            le(b + 268, num(cf, "crit_k", 358), 2);
            le(b + 280, cap, 8);
            le(b + 516, 1, 4);
            b[512] = 0x66;
            b[513] = 0x44;
            return 0;
        }
        if ((c->c10 & 0xff) == 0) {
            le(b, cap / 512, 8);
            le(b + 8, cap / 512, 8);
            le(b + 16, num(cf, "used_blocks", cap / 1024), 8);
            b[25] = 0;
            b[130] = 9;
            return 0;
        }
        return 0x4002;
    }
    if (c->op == 2) {
        int lid = c->c10 & 0xff;
        if (lid == 2) {
            b[0] = num(cf, "critical_warning", 0);
            le(b + 1, num(cf, "temp_k", 308), 2);
            b[3] = num(cf, "spare", 100);
            b[4] = num(cf, "spare_thr", 10);
            b[5] = num(cf, "used", 3);
            static const struct {
                int o;
                const char *k;
            } F[] = {{32, "duread"},  {48, "duwritten"}, {64, "reads"},   {80, "writes"},        {96, "busy"},
                     {112, "cycles"}, {128, "hours"},    {144, "unsafe"}, {160, "media_errors"}, {176, "err_entries"}};
            for (size_t i = 0; i < 10; i++)
                le(b + F[i].o, num(cf, F[i].k, 0), 8);
            le(b + 192, num(cf, "warn_time", 0), 4);
            le(b + 196, num(cf, "crit_time", 0), 4);
            le(b + 200, num(cf, "sensor1_k", 0), 2);
            le(b + 202, num(cf, "sensor2_k", 0), 2);
            return 0;
        }
        if (lid == 1 || lid == 6) return 0;
        return 0x4109;
    }
    return 0x4001;
}
int __open_2(const char *p, int fl) { return do_open(p, fl, 0, "open"); }
int __open64_2(const char *p, int fl) { return do_open(p, fl, 0, "open64"); }
int fstat64(int fd, struct stat64 *st) {
    int r = ((int (*)(int, struct stat64 *))dlsym(RTLD_NEXT, "fstat64"))(fd, st);
    if (!r && fd >= 0 && fd < 1024 && fdc[fd]) {
        st->st_mode = S_IFCHR | 0600;
        st->st_rdev = makedev(240, 9);
    }
    return r;
}
