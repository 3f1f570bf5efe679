/* A FUSE filesystem that passes everything to a folder, and fails or hangs when a control file asks for it.
 *
 *   failfs FOLDER CONTROL MOUNTPOINT [fuse options]
 *
 * CONTROL contains "<what> <name>" and is read again at every write, truncation and fsync, so that a test can change a
 * running filesystem. what: "ok"; "eio" (these calls fail with EIO); "sync" (only fsync fails); "hang" (these calls
 * wait until CONTROL changes). name: the only file that is affected, or "*" for all.
 */
#define FUSE_USE_VERSION 31
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fuse3/fuse.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

static int folder;
static const char *control;

static const char *relative(const char *path)
{
	return path[1] ? path + 1 : ".";
}

static int answer(const char *path, int sync)
{
	char text[300], what[16], name[256];
	struct timespec moment = {0, 20000000};

	for (;;) {
		int fd = open(control, O_RDONLY | O_CLOEXEC);
		ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
		if (fd >= 0)
			close(fd);
		text[n > 0 ? n : 0] = 0;
		if (sscanf(text, "%15s %255s", what, name) < 2)
			return 0;
		if (strcmp(name, "*") && strcmp(name, relative(path)))
			return 0;
		if (!strcmp(what, "eio") || (sync && !strcmp(what, "sync")))
			return -EIO;
		if (strcmp(what, "hang"))
			return 0;
		nanosleep(&moment, NULL);
	}
}

static int result(int value)
{
	return value < 0 ? -errno : 0;
}

static int do_getattr(const char *path, struct stat *st, struct fuse_file_info *fi)
{
	return result(fi ? fstat(fi->fh, st) : fstatat(folder, relative(path), st, AT_SYMLINK_NOFOLLOW));
}

static int do_readdir(const char *path, void *buf, fuse_fill_dir_t fill, off_t off, struct fuse_file_info *fi,
		      enum fuse_readdir_flags flags)
{
	(void)off, (void)fi, (void)flags;
	int fd = openat(folder, relative(path), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir)
		return -errno;
	for (struct dirent *entry; (entry = readdir(dir));)
		fill(buf, entry->d_name, NULL, 0, 0);
	closedir(dir);
	return 0;
}

static int opened(const char *path, struct fuse_file_info *fi, mode_t mode)
{
	int fd = openat(folder, relative(path), (fi->flags & ~O_APPEND) | O_CLOEXEC, mode);
	if (fd < 0)
		return -errno;
	fi->fh = fd;
	fi->direct_io = 1;
	return 0;
}

static int do_open(const char *path, struct fuse_file_info *fi)
{
	return opened(path, fi, 0);
}

static int do_create(const char *path, mode_t mode, struct fuse_file_info *fi)
{
	return opened(path, fi, mode);
}

static int do_read(const char *path, char *buf, size_t size, off_t off, struct fuse_file_info *fi)
{
	(void)path;
	ssize_t n = pread(fi->fh, buf, size, off);
	return n < 0 ? -errno : (int)n;
}

static int do_write(const char *path, const char *buf, size_t size, off_t off, struct fuse_file_info *fi)
{
	int error = answer(path, 0);
	ssize_t n = error ? 0 : pwrite(fi->fh, buf, size, off);
	return error ? error : n < 0 ? -errno : (int)n;
}

static int do_truncate(const char *path, off_t size, struct fuse_file_info *fi)
{
	(void)fi;
	int error = answer(path, 0);
	int fd = error ? -1 : openat(folder, relative(path), O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return error ? error : -errno;
	error = result(ftruncate(fd, size));
	close(fd);
	return error;
}

static int do_fsync(const char *path, int data_only, struct fuse_file_info *fi)
{
	(void)data_only, (void)fi;
	return answer(path, 1);
}

static int do_release(const char *path, struct fuse_file_info *fi)
{
	(void)path;
	close(fi->fh);
	return 0;
}

static int do_unlink(const char *path)
{
	return result(unlinkat(folder, relative(path), 0));
}

static int do_rename(const char *from, const char *to, unsigned int flags)
{
	return flags ? -EINVAL : result(renameat(folder, relative(from), folder, relative(to)));
}

static int do_statfs(const char *path, struct statvfs *st)
{
	(void)path;
	return result(fstatvfs(folder, st));
}

static void *do_init(struct fuse_conn_info *conn, struct fuse_config *config)
{
	(void)conn;
	config->direct_io = 1;
	config->attr_timeout = config->entry_timeout = config->negative_timeout = 0;
	return NULL;
}

static const struct fuse_operations operations = {
	.init = do_init,
	.getattr = do_getattr,
	.readdir = do_readdir,
	.open = do_open,
	.create = do_create,
	.read = do_read,
	.write = do_write,
	.truncate = do_truncate,
	.fsync = do_fsync,
	.release = do_release,
	.unlink = do_unlink,
	.rename = do_rename,
	.statfs = do_statfs,
};

int main(int argc, char **argv)
{
	if (argc < 4) {
		fprintf(stderr, "usage: failfs FOLDER CONTROL MOUNTPOINT [fuse options]\n");
		return 2;
	}
	folder = open(argv[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (folder < 0) {
		perror(argv[1]);
		return 1;
	}
	control = argv[2];
	argv[2] = argv[0];
	return fuse_main(argc - 2, argv + 2, &operations, NULL);
}
