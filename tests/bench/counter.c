/* Switches callgrind's count on and off from within a program, see tests/bench/callgrind.py. */
#include <valgrind/callgrind.h>

void start_counting(void) { CALLGRIND_START_INSTRUMENTATION; }
void stop_counting(void) { CALLGRIND_STOP_INSTRUMENTATION; }
void begin_step(void) { CALLGRIND_ZERO_STATS; }
void end_step(void) { CALLGRIND_DUMP_STATS; }
