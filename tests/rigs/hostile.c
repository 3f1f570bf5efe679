/* A process with any name and any arguments, which keeps writing a little so that every monitor lists it.
 *
 *   HOSTILE_NAME=comm HOSTILE_FILE=path hostile [any arguments]
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

int main(void)
{
	static char block[1 << 18];
	const char *name = getenv("HOSTILE_NAME"), *path = getenv("HOSTILE_FILE");

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (!name || !path || prctl(PR_SET_NAME, name))
		return 2;
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0) {
		perror(path);
		return 1;
	}
	memset(block, 'x', sizeof block);
	for (;;) {
		if (pwrite(fd, block, sizeof block, 0) < 0 || fdatasync(fd))
			return 1;
		struct timespec pause = {0, 100 * 1000 * 1000};
		nanosleep(&pause, NULL);
	}
}
