/* sadc and pidstat count intervals in whole seconds. Loaded with LD_PRELOAD this makes their second as long as
 * FAST_ALARM_US says, so that they can be held against another rate; nothing else of them changes. */
#include <stdlib.h>
#include <sys/time.h>

unsigned int alarm(unsigned int seconds)
{
	const char *us = getenv("FAST_ALARM_US");
	long long total = (us ? atoll(us) : 1000000) * seconds;
	struct itimerval timer = { .it_value = { total / 1000000, total % 1000000 } };

	setitimer(ITIMER_REAL, &timer, NULL);
	return 0;
}
