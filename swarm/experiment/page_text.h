/* SPDX-License-Identifier: Apache-2.0 */
/* The files of page/ as texts; the source is made when building (embed.cmake). */
#ifndef EXPERIMENT_PAGE_TEXT_H
#define EXPERIMENT_PAGE_TEXT_H

extern const char page_head[], page_style[], page_use[], page_foot[], page_script[];

#endif
