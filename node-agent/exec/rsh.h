/* SPDX-License-Identifier: Apache-2.0 */
/* `rsh HOST CMD...`: what stands in for ssh where a launcher starts programs on other workers. Its options
 * are ssh's as far as launchers use them, and are read over: who may do what is decided by membership alone.
 */
#ifndef EXEC_RSH_H
#define EXEC_RSH_H

#define RSH_FAULT 255 /* as ssh has it */

/* argv[0] is the program's or the verb's name. Returns the exit status: the program's there, or RSH_FAULT. */
int exec_rsh(int argc, char **argv);

#endif
