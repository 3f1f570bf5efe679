/* A FUSE filesystem with one file, /disk.img, that passes every request to a backing file after a delay.
 *
 *   slowfs BACKING CONTROL MOUNTPOINT [fuse options]
 *
 * CONTROL contains "<delay_us> <bytes_per_s> <fail 0|1>" and is read again at every request, so that a test can change
 * a running disk. The delay applies to each request, however many are queued; bytes_per_s (0: no limit) is shared by
 * all requests; with fail=1 each request gets EIO. A loop device over /disk.img is then a slow block device.
 */
#define FUSE_USE_VERSION 31
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <fuse3/fuse.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int backing;
static const char *control;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static double free_at; /* when the shared transfer line is free again */

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static int wait_for(size_t bytes)
{
	char text[128];
	long delay_us = 0;
	double bytes_per_s = 0;
	int fail = 0;
	int fd = open(control, O_RDONLY | O_CLOEXEC);

	if (fd >= 0) {
		ssize_t n = read(fd, text, sizeof text - 1);
		close(fd);
		text[n > 0 ? n : 0] = 0;
		if (sscanf(text, "%ld %lf %d", &delay_us, &bytes_per_s, &fail) < 3)
			return -EIO;
	}
	double until = now() + delay_us / 1e6;
	if (bytes_per_s > 0) {
		pthread_mutex_lock(&lock);
		double t = now();
		if (free_at < t)
			free_at = t;
		free_at += bytes / bytes_per_s;
		if (free_at > until)
			until = free_at;
		pthread_mutex_unlock(&lock);
	}
	struct timespec ts = {(time_t)until, (long)((until - (time_t)until) * 1e9)};
	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL);
	return fail ? -EIO : 0;
}

static int do_getattr(const char *path, struct stat *st, struct fuse_file_info *fi)
{
	(void)fi;
	memset(st, 0, sizeof *st);
	if (!strcmp(path, "/")) {
		st->st_mode = S_IFDIR | 0755;
		st->st_nlink = 2;
		return 0;
	}
	if (strcmp(path, "/disk.img"))
		return -ENOENT;
	if (fstat(backing, st))
		return -errno;
	st->st_mode = S_IFREG | 0600;
	return 0;
}

static int do_readdir(const char *path, void *buf, fuse_fill_dir_t fill, off_t off, struct fuse_file_info *fi,
		      enum fuse_readdir_flags flags)
{
	(void)path, (void)off, (void)fi, (void)flags;
	fill(buf, ".", NULL, 0, 0);
	fill(buf, "..", NULL, 0, 0);
	fill(buf, "disk.img", NULL, 0, 0);
	return 0;
}

static int do_open(const char *path, struct fuse_file_info *fi)
{
	(void)path;
	fi->direct_io = 1;
	return 0;
}

static int do_read(const char *path, char *buf, size_t size, off_t off, struct fuse_file_info *fi)
{
	(void)path, (void)fi;
	int error = wait_for(size);
	if (error)
		return error;
	ssize_t n = pread(backing, buf, size, off);
	return n < 0 ? -errno : (int)n;
}

static int do_write(const char *path, const char *buf, size_t size, off_t off, struct fuse_file_info *fi)
{
	(void)path, (void)fi;
	int error = wait_for(size);
	if (error)
		return error;
	ssize_t n = pwrite(backing, buf, size, off);
	return n < 0 ? -errno : (int)n;
}

static int do_fsync(const char *path, int data_only, struct fuse_file_info *fi)
{
	(void)path, (void)data_only, (void)fi;
	return wait_for(0);
}

/* A discard of the loop device arrives as a hole to punch. */
static int do_fallocate(const char *path, int mode, off_t off, off_t size, struct fuse_file_info *fi)
{
	(void)path, (void)fi;
	int error = wait_for(0);
	if (error)
		return error;
	return fallocate(backing, mode, off, size) ? -errno : 0;
}

static void *do_init(struct fuse_conn_info *conn, struct fuse_config *config)
{
	conn->max_background = 128; /* the default, 12, would make deeper queues wait for each other */
	config->direct_io = 1;
	return NULL;
}

static const struct fuse_operations operations = {
	.init = do_init,
	.getattr = do_getattr,
	.readdir = do_readdir,
	.open = do_open,
	.read = do_read,
	.write = do_write,
	.fsync = do_fsync,
	.fallocate = do_fallocate,
};

int main(int argc, char **argv)
{
	if (argc < 4) {
		fprintf(stderr, "usage: slowfs BACKING CONTROL MOUNTPOINT [fuse options]\n");
		return 2;
	}
	backing = open(argv[1], O_RDWR | O_CLOEXEC);
	if (backing < 0) {
		perror(argv[1]);
		return 1;
	}
	control = argv[2];
	argv[2] = argv[0];
	return fuse_main(argc - 2, argv + 2, &operations, NULL);
}
