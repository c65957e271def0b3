/* SPDX-License-Identifier: Apache-2.0 */
#include "reader.h"
#include "test.h"

struct fixture {
    struct compose_arena *arena;
    struct node *root;
    bool more;
    struct mst_error err;
};

static int read_text_n(struct fixture *f, const char *text, size_t bytes)
{
    *f = (struct fixture){.arena = compose_arena_new()};
    assert_non_null(f->arena);
    return reader_parse(f->arena, text, bytes, "f", &f->root, &f->more, &f->err);
}

static int read_text(struct fixture *f, const char *text)
{
    return read_text_n(f, text, strlen(text));
}

static const struct node *value_of(const struct node *map, const char *key)
{
    for (size_t i = 0; i < map->count; i++)
        if (strcmp(map->entries[i].key, key) == 0)
            return map->entries[i].value;
    fail_msg("no key '%s'", key);
    return NULL;
}

static void nodes_know_their_place_and_kind(void **state)
{
    (void)state;
    struct fixture f;
    assert_int_equal(read_text(&f, "a:\n  - 12\n  - '12'\n  - !!str 12\n  - \"\\u00e9\"\nb: {c: ~}\n"), 0);
    assert_int_equal(f.root->kind, NODE_MAP);
    assert_int_equal(f.root->count, 2);
    const struct node *list = value_of(f.root, "a");
    assert_int_equal(list->kind, NODE_LIST);
    assert_int_equal(list->count, 4);
    assert_int_equal(list->entries[0].value->scalar.kind, SCALAR_INT);
    assert_int_equal(list->entries[0].value->place.line, 2);
    assert_int_equal(list->entries[0].value->place.column, 5);
    assert_int_equal(list->entries[1].value->scalar.kind, SCALAR_TEXT);
    assert_int_equal(list->entries[2].value->scalar.kind, SCALAR_TEXT);
    assert_string_equal(list->entries[3].value->text, "\xc3\xa9");
    assert_int_equal(value_of(value_of(f.root, "b"), "c")->scalar.kind, SCALAR_NULL);
    assert_false(f.more);
    compose_arena_free(f.arena);
}

static void aliases_share_and_merge_keys_are_shallow(void **state)
{
    (void)state;
    struct fixture f;
    assert_int_equal(read_text(&f, "x: &x {p: 1, q: {r: 1}}\n"
                                   "y: &y {q: 2, s: 3}\n"
                                   "one: *x\n"
                                   "two: {q: 9, <<: *x}\n"
                                   "three: {<<: [*y, *x]}\n"
                                   "four: {<<: *x, p: 7}\n"
                                   "five: {'<<': 1}\n"),
                     0);
    assert_ptr_equal(value_of(f.root, "one"), value_of(f.root, "x"));
    const struct node *two = value_of(f.root, "two"), *three = value_of(f.root, "three");
    assert_int_equal(two->count, 2);
    assert_string_equal(value_of(two, "q")->text, "9");
    assert_string_equal(value_of(two, "p")->text, "1");
    assert_int_equal(three->count, 3);
    assert_string_equal(value_of(three, "q")->text, "2");
    assert_string_equal(value_of(value_of(f.root, "four"), "p")->text, "7");
    assert_string_equal(value_of(value_of(f.root, "five"), "<<")->text, "1");
    compose_arena_free(f.arena);
}

static void an_anchor_may_be_given_again(void **state)
{
    (void)state;
    struct fixture f;
    assert_int_equal(read_text(&f, "[&a 1, *a, &a 2, *a]"), 0);
    assert_string_equal(f.root->entries[1].value->text, "1");
    assert_string_equal(f.root->entries[3].value->text, "2");
    compose_arena_free(f.arena);
}

static void only_the_first_document_is_read(void **state)
{
    (void)state;
    struct fixture f;
    assert_int_equal(read_text(&f, "--- \na: 1\n---\nb: 2\n"), 0);
    assert_int_equal(f.root->count, 1);
    assert_true(f.more);
    compose_arena_free(f.arena);
    assert_int_equal(read_text(&f, "a: 1\n...\n"), 0);
    assert_false(f.more);
    compose_arena_free(f.arena);
}

static void a_byte_order_mark_is_no_content(void **state)
{
    (void)state;
    struct fixture f;
    assert_int_equal(read_text(&f, "\xef\xbb\xbf"
                                   "a: 1\n"),
                     0);
    assert_string_equal(f.root->entries[0].key, "a");
    compose_arena_free(f.arena);
}

static const struct {
    const char *text, *error;
} bad[] = {
    {"", "f: the file is empty"},
    {"# nothing\n", "f: the file is empty"},
    {"a: 1\nb: 2\na: 3\n", "f:3:1: the key 'a' stands here already, on line 1"},
    {"a: *b\n", "f:1:4: alias '*b': no anchor '&b' stands before it"},
    {"a: &b [*b]\n", "f:1:8: alias '*b' stands inside of what it names"},
    {"a: &b {c: *b}\n", "f:1:11: alias '*b' stands inside of what it names"},
    {"1: x\n", "f:1:1: the key '1' is not a text: put it in quotes"},
    {"true: x\n", "f:1:1: the key 'true' is not a text: put it in quotes"},
    {"? [a]\n: x\n", "f:1:3: a key must be a text, not a list"},
    {"? {a: b}\n: x\n", "f:1:3: a key must be a text, not a mapping"},
    {"<<: 1\n", "f:1:5: a merge key ('<<') takes a mapping or a list of mappings"},
    {"a: &a [1]\nb:\n  <<: [*a]\n", "f:1:4: a merge key takes mappings, not lists of lists"},
    {"a: &a {}\nb: {<<: *a, <<: *a}\n",
     "f:2:13: a second '<<' in one mapping: give one a list, '<<: [*a, *b]'"},
    {"a: !!binary aGk=\n", "f:1:4: the tag 'tag:yaml.org,2002:binary' is not supported"},
    {"a: !resets null\n", "f:1:4: the tag '!resets' is not supported"},
    {"a: !override/x [x]\n", "f:1:4: the tag '!override/x' is not supported"},
    {"!reset a: 1\n", "f:1:1: the tag '!reset' stands before a value, not before a key"},
    {"<<: !override {a: 1}\n", "f:1:5: a merge key ('<<') takes a mapping or a list of mappings"},
    {"a: !!int x\n", "f:1:4: 'x' is not what its tag '!!int' says"},
    {"a:\n\tb: 1\n", "f:2:1: a tab stands at the beginning of this line; YAML wants blanks there"},
    {"a: \"x\\0y\"\n", "f:1:4: a text may not hold a NUL character"},
};

static void bad_files_are_refused_with_their_place(void **state)
{
    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(bad); i++) {
        struct fixture f;
        assert_int_equal(read_text(&f, bad[i].text), -EBADMSG);
        assert_string_equal(f.err.text, bad[i].error);
        assert_null(f.root);
        compose_arena_free(f.arena);
    }
}

static void what_is_not_yaml_is_refused_with_its_place(void **state)
{
    (void)state;
    static const char *const texts[] = {"a: [1\n", "a: 'x\n", "\ta: 1\n",    "a:\n\tb: 1\n",  "a: b: c\n",
                                        "%X\n",    "a: @x\n", "- a\nb: 1\n", "a: 1\n b: 2\n", "}\n"};
    for (size_t i = 0; i < MST_ARRAY_COUNT(texts); i++) {
        struct fixture f;
        if (read_text(&f, texts[i]) != -EBADMSG)
            fail_msg("taken: %s", texts[i]);
        assert_int_equal(strncmp(f.err.text, "f:", 2), 0);
        compose_arena_free(f.arena);
    }
    struct fixture f;
    assert_int_equal(read_text_n(&f, "a: \xff\xfe\n", 6), -EBADMSG);
    assert_int_equal(strncmp(f.err.text, "f: ", 3), 0);
    compose_arena_free(f.arena);
}

static void nesting_has_an_end(void **state)
{
    (void)state;
    struct fixture f;
    char text[513];
    memset(text, '[', 256);
    memset(text + 256, ']', 256);
    text[512] = '\0';
    assert_int_equal(read_text(&f, text), -EBADMSG);
    assert_string_equal(f.err.text, "f:1:65: nested deeper than 64 levels");
    compose_arena_free(f.arena);
}

static void aliases_do_not_nest_deeper_than_text_does(void **state)
{
    (void)state;
    struct fixture f;
    mst_cleanup(mst_buf_release) struct mst_buf text = MST_BUF_INIT(65536);
    assert_int_equal(mst_buf_printf(&text, "- &a0 [x]\n"), 0);
    for (int i = 1; i < 100; i++)
        assert_int_equal(mst_buf_printf(&text, "- &a%d [*a%d]\n", i, i - 1), 0);
    assert_int_equal(read_text(&f, mst_buf_text(&text)), -EBADMSG);
    assert_non_null(strstr(f.err.text, "nested deeper than 64 levels"));
    compose_arena_free(f.arena);
}

/* Ten levels of ten aliases: 10^10 values when written out. */
static void a_billion_laughs_are_refused_before_they_are_written_out(void **state)
{
    (void)state;
    mst_cleanup(mst_buf_release) struct mst_buf text = MST_BUF_INIT(65536);
    assert_int_equal(mst_buf_printf(&text, "a0: &a0 [lol,lol,lol,lol,lol,lol,lol,lol,lol,lol]\n"), 0);
    for (int i = 1; i < 10; i++)
        assert_int_equal(
            mst_buf_printf(&text, "a%d: &a%d [*a%d,*a%d,*a%d,*a%d,*a%d,*a%d,*a%d,*a%d,*a%d,*a%d]\n", i, i,
                           i - 1, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1),
            0);
    struct fixture f;
    assert_int_equal(read_text(&f, mst_buf_text(&text)), -EBADMSG);
    /* What was made is as much as stands there: some 200 nodes, not the limit's 100,000. */
    assert_true(compose_arena_bytes(f.arena) < 1000 * sizeof(struct node));
    assert_non_null(strstr(f.err.text, "the file grows past 100000 values when its aliases are written out"));
    compose_arena_free(f.arena);
}

/* How much work that is: test_anchors.c. */
static void as_many_anchors_as_a_file_may_have_are_found(void **state)
{
    (void)state;
    mst_cleanup(mst_buf_release) struct mst_buf text = MST_BUF_INIT(4 << 20);
    for (int list = 0; list < 10; list++) {
        assert_int_equal(mst_buf_printf(&text, "k%d: [x", list), 0);
        for (int i = 0; i < 4900; i++)
            assert_int_equal(mst_buf_printf(&text, ", &same%d%d x", list, i), 0);
        /* the first ones: a search through all would come to them last */
        for (int i = 0; i < 4900; i++)
            assert_int_equal(mst_buf_printf(&text, ", *same0%d", i), 0);
        assert_int_equal(mst_buf_append_text(&text, "]\n"), 0);
    }
    struct fixture f;
    assert_int_equal(read_text(&f, mst_buf_text(&text)), 0);
    assert_int_equal(f.root->count, 10);
    const struct node *last = value_of(f.root, "k9");
    assert_string_equal(last->entries[last->count - 1].value->text, "x");
    compose_arena_free(f.arena);
}

static void merges_that_multiply_are_refused(void **state)
{
    (void)state;
    mst_cleanup(mst_buf_release) struct mst_buf text = MST_BUF_INIT(1 << 20);
    assert_int_equal(mst_buf_printf(&text, "a: &a\n"), 0);
    for (int i = 0; i < 2000; i++)
        assert_int_equal(mst_buf_printf(&text, "  k%d: v\n", i), 0);
    for (int i = 0; i < 2000; i++)
        assert_int_equal(mst_buf_printf(&text, "b%d: {<<: *a}\n", i), 0);
    struct fixture f;
    assert_int_equal(read_text(&f, mst_buf_text(&text)), -EBADMSG);
    assert_non_null(strstr(f.err.text, "grows past 100000 values"));
    compose_arena_free(f.arena);
}

static void a_mapping_of_too_many_keys_is_refused(void **state)
{
    (void)state;
    mst_cleanup(mst_buf_release) struct mst_buf text = MST_BUF_INIT(1 << 20);
    for (int i = 0; i < 10001; i++)
        assert_int_equal(mst_buf_printf(&text, "k%d: v\n", i), 0);
    struct fixture f;
    assert_int_equal(read_text(&f, mst_buf_text(&text)), -EBADMSG);
    assert_string_equal(f.err.text, "f:10001:9: more than 10000 entries in one list or mapping");
    compose_arena_free(f.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_know_their_place_and_kind),
        cmocka_unit_test(aliases_share_and_merge_keys_are_shallow),
        cmocka_unit_test(an_anchor_may_be_given_again),
        cmocka_unit_test(only_the_first_document_is_read),
        cmocka_unit_test(a_byte_order_mark_is_no_content),
        cmocka_unit_test(bad_files_are_refused_with_their_place),
        cmocka_unit_test(what_is_not_yaml_is_refused_with_its_place),
        cmocka_unit_test(nesting_has_an_end),
        cmocka_unit_test(aliases_do_not_nest_deeper_than_text_does),
        cmocka_unit_test(a_billion_laughs_are_refused_before_they_are_written_out),
        cmocka_unit_test(as_many_anchors_as_a_file_may_have_are_found),
        cmocka_unit_test(merges_that_multiply_are_refused),
        cmocka_unit_test(a_mapping_of_too_many_keys_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
