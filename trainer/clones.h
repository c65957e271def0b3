/* SPDX-License-Identifier: Apache-2.0 */
/* The build is for the plainest x86-64; with TRAINER_CLONES before a function the loader picks the widest
 * version of it that the CPU has. Sanitizers do not get on with the resolver functions, which run before they
 * are set up. */
#ifndef TRAINER_CLONES_H
#define TRAINER_CLONES_H

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) &&     \
    !defined(__SANITIZE_THREAD__) && defined(__OPTIMIZE__)
#define TRAINER_CLONES __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define TRAINER_CLONES
#endif

#endif
