package markdown_test

import (
	"flag"
	"html"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rutter/generator/markdown"
	"rutter/runbooks/diag"
)

var update = flag.Bool("update", false, "write the golden files")

func TestDialect(t *testing.T) {
	src, err := os.ReadFile("testdata/dialect.md")
	if err != nil {
		t.Fatal(err)
	}
	doc, diags := markdown.Convert(markdown.Source{File: "dialect.md", Text: string(src)}, markdown.Options{})
	if err := diags.Err(); err != nil {
		t.Errorf("diagnostics: %v", err)
	}
	golden(t, "testdata/dialect.html", doc.HTML)
}

func TestLineEndingsAndByteOrderMarkChangeNothing(t *testing.T) {
	src, err := os.ReadFile("testdata/dialect.md")
	if err != nil {
		t.Fatal(err)
	}
	lf, _ := markdown.Convert(markdown.Source{Text: string(src)}, markdown.Options{})
	crlf, _ := markdown.Convert(markdown.Source{
		Text: "\ufeff" + strings.ReplaceAll(string(src), "\n", "\r\n"),
	}, markdown.Options{})
	if diff := cmp.Diff(lf.HTML, crlf.HTML); diff != "" {
		t.Errorf("CRLF with BOM differs from LF (-lf +crlf):\n%s", diff)
	}
}

func TestSlug(t *testing.T) {
	for _, tc := range []struct{ heading, want string }{
		{"v1.0.0 (Apr)", "v100-apr"},
		{"Über uns", "über-uns"},
		{"概要 と 設定", "概要-と-設定"},
		{"snake_case and kebab-case", "snake_case-and-kebab-case"},
		{"How to force unpeer a cluster?", "how-to-force-unpeer-a-cluster"},
		{"  a  b ", "a--b"},
		{"!!!", ""},
	} {
		if got := markdown.Slug(tc.heading); got != tc.want {
			t.Errorf("Slug(%q) = %q, want %q", tc.heading, got, tc.want)
		}
	}
}

func TestHeadingIDsAreDistinct(t *testing.T) {
	doc, _ := markdown.Convert(markdown.Source{Text: "# 概要\n# 概要\n# !!!\n# ***\n# a\n# a-1\n# a\n"}, markdown.Options{})
	var got []string
	for _, s := range doc.Sections[1:] {
		got = append(got, s.ID)
	}
	want := []string{"概要", "概要-1", "section", "section-1", "a", "a-1", "a-2"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("ids (-want +got):\n%s", diff)
	}
}

func TestUnsafeLinksAreInert(t *testing.T) {
	for _, md := range []string{
		"[x](javascript:alert(1))",
		"[x](javascript&colon;alert(1))",
		"[x](javascript&amp;colon;alert(1))",
		"[x](&#106;avascript:alert(1))",
		"[x](JaVaScRiPt:alert(1))",
		"[x](<java\tscript:alert(1)>)",
		"[x](\\javascript:alert(1))",
		"[x](vbscript:x)", "[x](data:text/html,x)", "[x](file:///etc/passwd)",
		"[x](//evil.example)", `[x](/\\evil.example)`,
		"<javascript:alert(1)>",
		"[x][r]\n\n[r]: javascript&colon;alert(1)",
		"![x](javascript:alert(1))",
		"![x](data:image/svg+xml,x)",
	} {
		doc, _ := markdown.Convert(markdown.Source{Text: md}, markdown.Options{})
		for _, bad := range []string{"href=\"javascript:", "src=\"java", "src=\"data", "href=\"data", "href=\"vb", "href=\"file", "href=\"//", `href="/\`} {
			if strings.Contains(strings.ToLower(html.UnescapeString(doc.HTML)), bad) {
				t.Errorf("%q became %s", md, doc.HTML)
			}
		}
	}
}

func TestDiagnosticsHavePlaces(t *testing.T) {
	for _, tc := range []struct{ name, md, want string }{
		{"scheme", "one\n\nand [x](javascript:a)", "f.md:12:5: link to \"javascript:a\": only http, https and mailto links and paths are followed"},
		{"unknown directive", ":::{warnng}\nx\n:::", "f.md:10:1: unknown directive {warnng}\n\thint: did you mean \"warning\"?"},
		{"unknown fenced directive", "```{figur} x\n```", "f.md:10:1: unknown directive {figur}"},
		{"unclosed directive", "x\n\n:::{note}\nx", "f.md:12:1: {note} is never closed\n\thint: end it with a line :::"},
		{"alert", "> [!WARNIN]\n> x", "f.md:10:1: unknown alert [!WARNIN]\n\thint: did you mean \"WARNING\"?"},
		{"duplicate id", "# a {#x}\n# b {#x}", "f.md:11:1: duplicate anchor #x"},
		{"no alt", "![](a.png)", "f.md:10:1: image without alternative text\n\thint: write what it shows: ![a diagram of …](…)"},
		{"image from elsewhere", "![a](https://example.org/a.png)", "f.md:10:1: image from elsewhere: a page loads nothing from other sites\n\thint: keep the image beside the page and link to it by its name"},
		{"code attribute", "```yaml {hl_line=3}\n```", "f.md:10:1: unknown attribute \"hl_line\" of a code block\n\thint: did you mean \"hl_lines\"?"},
		{"resolver", "é [a](gone.md#x)", "f.md:10:3: no page gone.md\n\thint: did you mean \"here.md\"?"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, diags := markdown.Convert(markdown.Source{File: "f.md", Text: tc.md, Line: 10}, markdown.Options{
				Resolve: func(dest string) (string, *diag.Diagnostic) {
					if strings.HasPrefix(dest, "gone.md") {
						return "", &diag.Diagnostic{Message: "no page gone.md", Hint: `did you mean "here.md"?`}
					}
					return dest, nil
				},
			})
			err := diags.Err()
			if err == nil {
				t.Fatal("no diagnostics")
			}
			if got := err.Error(); !strings.HasPrefix(got, tc.want) {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

func TestSectionsHoldTheText(t *testing.T) {
	doc, _ := markdown.Convert(markdown.Source{File: "f.md", Text: "Intro *it*.\n\n## One `x`\n\n- a\n- b\n\n```sh\nls\n```\n"}, markdown.Options{Shift: 1})
	want := []markdown.Section{
		{Text: "Intro it.", Pos: diag.Pos{File: "f.md", Line: 1, Col: 1}},
		{Level: 3, ID: "one-x", Title: "One x", Text: "a\nb\nls", Pos: diag.Pos{File: "f.md", Line: 3, Col: 1}},
	}
	if diff := cmp.Diff(want, doc.Sections); diff != "" {
		t.Errorf("sections (-want +got):\n%s", diff)
	}
}

func FuzzConvert(f *testing.F) {
	src, err := os.ReadFile("testdata/dialect.md")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(src))
	f.Add(":::{tab-set}\n:::{tab-item} x\n> [!NOTE]\n")
	f.Add("- :::{note}\n  x\n  :::\n- ```{tip}\n")
	f.Fuzz(func(t *testing.T, md string) {
		doc, _ := markdown.Convert(markdown.Source{Text: md}, markdown.Options{})
		for _, bad := range []string{"<script", "href=\"javascript", " onerror", " style="} {
			if strings.Contains(doc.HTML, bad+"=") || bad[0] == '<' && strings.Contains(doc.HTML, bad) {
				t.Errorf("%q became %q", md, doc.HTML)
			}
		}
	})
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got), run with -update to accept:\n%s", name, diff)
	}
}
