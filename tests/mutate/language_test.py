"""The lexer, the finder of functions, and the operators, on hard pieces of C++. Usage: language_test.py"""
import unittest

import functions
import operators
from lexer import Source, Wrong


def names(text):
    return [definition.name for definition in functions.definitions(Source(text))]


def body(text, name):
    """The text of a definition."""
    source = Source(text)
    found, = [each for each in functions.definitions(source) if each.name == name]
    return text[source.tokens[found.first].start:source.tokens[found.last].end]


def mutants(operator, statements, head="void f()"):
    """What an operator makes of a function's statements."""
    text = f"{head} {{ {statements} }}"
    source = Source(text)
    found, = functions.definitions(source)
    made = [text[:start] + new + text[end:] for start, end, new in operators.changes(source, found, operator)]
    return [each[len(head) + 3:-2] for each in made]


class LexerTest(unittest.TestCase):
    def texts(self, text):
        return [token.text for token in Source(text).tokens]

    def test_comments_are_no_tokens(self):
        self.assertEqual(self.texts("a // b { \\\n still a comment\n/* c\n } */ d /**/"), ["a", "d"])

    def test_a_string_hides_comments_and_brackets(self):
        self.assertEqual(self.texts(r'f("// \" {", u8"}", L"x")'), ["f", "(", r'"// \" {"', ",", 'u8"}"', ",", 'L"x"', ")"])

    def test_a_raw_string_ends_at_its_own_mark(self):
        self.assertEqual(self.texts('R"a(x)" "{ )b" )a" + y'), ['R"a(x)" "{ )b" )a"', "+", "y"])
        self.assertEqual(self.texts('LR"(\\)" z'), ['LR"(\\)"', "z"])

    def test_an_apostrophe_is_a_character_or_parts_digits(self):
        self.assertEqual(self.texts("1'000'000u + '\\'' + '{' + 0xFF'FFull + 1.5e-3F"),
                         ["1'000'000u", "+", "'\\''", "+", "'{'", "+", "0xFF'FFull", "+", "1.5e-3F"])

    def test_preprocessor_lines_are_no_tokens(self):
        text = '#include <a>\n  #define F(x) { \\\n  (x\n#if A  /* {\n */\nb # c\n#endif  // d\n'
        self.assertEqual(self.texts(text), ["b", "#", "c"])

    def test_signs_are_as_long_as_possible(self):
        self.assertEqual(self.texts("a<<=b>>c<=>d->*e::f...!=g"), ["a", "<<=", "b", ">>", "c", "<=>", "d", "->*", "e",
                                                                "::", "f", "...", "!=", "g"])

    def test_a_bracket_that_does_not_match_is_refused(self):
        for text in ("(}", "{", "a)"):
            with self.assertRaisesRegex(Wrong, "x.cc:1: "):
                Source(text, "x.cc")

    def test_a_comparison_is_no_bracket_of_a_template(self):
        source = Source("template <class T> bool f(A<B<T>> a) { return a < b; }")
        found = [token.text for i, token in enumerate(source.tokens) if source.is_template_bracket(i)]
        self.assertEqual(found, ["<", ">", "<", "<", ">>"])


class FunctionsTest(unittest.TestCase):
    def test_names_have_their_namespaces_and_classes(self):
        text = "namespace a::b { namespace { struct C final : D<int()> { public: int f() const { return 1; } }; } void g() {} }"
        self.assertEqual(names(text), ["a::b::C::f", "a::b::g"])

    def test_declarations_are_no_definitions(self):
        self.assertEqual(names("int f(); class A; struct B { void g(); }; enum class E : int { k = 1 }; using F = int();"), ["F"])

    def test_a_constructors_body_follows_its_members(self):
        text = "A::A(int x) noexcept : a_(x), b_{x, {1}}, c_([x] { return x; }), D<int>{x} { g(); }"
        self.assertEqual(body(text, "A::A"), text[text.index(": a_"):])

    def test_operators_and_destructors_have_names(self):
        text = "A::~A() {} bool A::operator==(const A& a) const { return 1; } int A::operator()(int x) { return x; }"
        self.assertEqual(names(text), ["A::~A", "A::operator==", "A::operator()"])

    def test_templates_and_attributes_are_passed_over(self):
        text = ("template <class T, int N = (3 > 2)> [[nodiscard]] std::function<void(T)> A<T>::f(T x) -> int { }"
                "template <> struct alignas(64) B<int> { static void g() {} };")
        self.assertEqual(names(text), ["A::f", "B::g"])

    def test_a_lambda_in_a_default_argument_is_no_body(self):
        text = "struct A { explicit A(F f = [] { return 0; }) : f_(f) {} int b_ = 2; };"
        self.assertEqual(names(text), ["A::A", "A::b_"])
        self.assertEqual(body(text, "A::A"), ": f_(f) {}")

    def test_a_constants_value_is_a_definition(self):
        text = "namespace a { constexpr int kA = 3 + 4; constexpr B kB[]{{1, 2}, {3}}; int f() { return 0; } }"
        self.assertEqual(names(text), ["a::kA", "a::kB", "a::f"])
        self.assertEqual(body(text, "a::kA"), "= 3 + 4")

    def test_lambdas_and_classes_inside_belong_to_the_function(self):
        self.assertEqual(names("void f() { struct B { int g() { return 1; } }; auto h = [](int x) { return x; }; }"), ["f"])

    def test_a_type_returned_with_its_key_word_is_no_class(self):
        self.assertEqual(names('extern "C" { struct stat* f(int x) { return g(x); } }'), ["f"])


class OperatorsTest(unittest.TestCase):
    def test_comparisons_are_changed_and_templates_are_not(self):
        self.assertEqual(mutants("compare", "return a < b && f<int>(c) == d->e;"),
                         ["return a <= b && f<int>(c) == d->e;", "return a < b && f<int>(c) != d->e;"])
        self.assertEqual(mutants("compare", "m = hn::Lt(a, b);"), ["m = hn::Le(a, b);"])

    def test_a_check_never_holds(self):
        self.assertEqual(mutants("check", "if (a || b) return; if (c) { g(); continue; } if (d) g();"),
                         ["if (false && (a || b)) return; if (c) { g(); continue; } if (d) g();",
                          "if (a || b) return; if (false && (c)) { g(); continue; } if (d) g();"])

    def test_a_check_keeps_what_it_declares(self):
        self.assertEqual(mutants("check", "if (auto s = g(); !s.ok()) return s;"), ["if (auto s = g(); false && (!s.ok())) return s;"])
        self.assertEqual(mutants("check", "if (const A* a = g()) return h(a);"), ["if (const A* a = g()) {}"])
        self.assertEqual(mutants("check", "if (x) [[unlikely]] { return; } else if (y) break;"),
                         ["if (false && (x)) [[unlikely]] { return; } else if (y) break;",
                          "if (x) [[unlikely]] { return; } else if (false && (y)) break;"])

    def test_an_error_is_not_returned(self):
        self.assertEqual(mutants("check", "PHUB_RETURN_IF_ERROR(g(1));"), ["static_cast<void>(g(1));"])
        self.assertEqual(mutants("statement", "PHUB_RETURN_IF_ERROR(g(1)); PHUB_ASSIGN_OR_RETURN(int x, h());"), [])

    def test_bounds_change_by_one(self):
        self.assertEqual(mutants("bound", "g(0, true);"), ["g(1, true);", "g(0, false);"])
        self.assertEqual(mutants("bound", "g(1);"), ["g(0);"])
        self.assertEqual(mutants("bound", "g(4'096U);"), ["g(4097U);", "g(4095U);"])
        self.assertEqual(mutants("bound", "g(0xFF, 0.5F);"), ["g((0xFF + 1), 0.5F);", "g(0xFF, (0.5F + 1));"])
        self.assertEqual(mutants("bound", "g<3>(x); std::array<int, 4> a;"), [])

    def test_statements_are_left_out_and_declarations_are_not(self):
        self.assertEqual(mutants("statement", "a->b[1].c += 2; int x = 3; const auto y = g(); A z(1); std::vector<int> v(2);"),
                         ["{} int x = 3; const auto y = g(); A z(1); std::vector<int> v(2);"])
        self.assertEqual(mutants("statement", "if (a) ++*p; else h<int>(1).k(2);"),
                         ["if (a) {} else h<int>(1).k(2);", "if (a) ++*p; else {}"])
        self.assertEqual(mutants("statement", "for (i = 0; i < 2; ++i) g(i);"), ["for (i = 0; i < 2; ++i) {}"])
        self.assertEqual(mutants("statement", "return A{g(1)};"), [])

    def test_statements_of_lambdas_and_cases_are_left_out(self):
        self.assertEqual(mutants("statement", "return h([&] { x = 1; });"), ["return h([&] { {} });"])
        self.assertEqual(mutants("statement", "switch (a) { case A::k: g(); break; default: return b ? c : d(); }"),
                         ["switch (a) { case A::k: {} break; default: return b ? c : d(); }"])

    def test_what_no_test_can_notice_is_left_alone(self):
        ignored = 'PHUB_CHECK(a < 1, "b"); spdlog::info("c={}", 1 + 2); v.reserve(2); static_assert(1 == 1);'
        self.assertEqual([made for name in operators.OPERATORS for made in mutants(name, ignored)
                          if name != "bound" or "reserve(2)" in made], [])

    def test_fields_are_left_out(self):
        self.assertEqual(mutants("field", "g({.a = h(1, 2), .b = {3}});"), ["g({ .b = {3}});", "g({.a = h(1, 2), });"])
        self.assertEqual(mutants("field", "g({.a = {}, .b = nullptr}); x.y = 1;"), [])

    def test_logic_negations_and_signs_are_changed(self):
        self.assertEqual(mutants("logic", "auto&& x = a && b || c;"), ["auto&& x = a || b || c;", "auto&& x = a && b && c;"])
        self.assertEqual(mutants("negation", "return !a && b != c;"), ["return a && b != c;"])
        self.assertEqual(mutants("sign", 'x = -a + b; y -= 1; s = t + "u"; return *p++;'),
                         ['x = -a - b; y -= 1; s = t + "u"; return *p++;', 'x = -a + b; y += 1; s = t + "u"; return *p++;'])
        self.assertEqual(mutants("sign", "x = hn::Add(a, b);"), ["x = hn::Sub(a, b);"])
        self.assertEqual(mutants("extreme", "x = std::min<int>(a, b.max());"), ["x = std::max<int>(a, b.max());"])

    def test_a_choice_takes_the_other(self):
        self.assertEqual(mutants("choice", "return g(a.b(c) < d ? 1 : 2);"), ["return g(!(a.b(c) < d) ? 1 : 2);"])
        self.assertEqual(mutants("choice", "x = f<A>(b) ? c : d;"), ["x = !(f<A>(b)) ? c : d;"])

    def test_a_result_is_negated_where_nothing_else_changes_it(self):
        self.assertEqual(mutants("result", "return a.b(c);", "bool f()"), ["return !(a.b(c));"])
        self.assertEqual(mutants("result", "return a == b;", "bool f()"), [])
        self.assertEqual(mutants("result", "return a;", "int f(bool b)"), [])

    def test_texts_change(self):
        self.assertEqual(mutants("text", 'return "a";'), ['return "a?";'])
        self.assertEqual(mutants("text", 'g("SELECT a FROM b WHERE c = 1 AND d < ?");'),
                         ['g("SELECT a FROM b WHERE c = 0 AND d < ?");', 'g("SELECT a FROM b WHERE c = 1 OR d < ?");',
                          'g("SELECT a FROM b WHERE c = 1 AND d >= ?");'])
        self.assertEqual(mutants("text", 'log("a = 1");'), [])


if __name__ == "__main__":
    unittest.main()
